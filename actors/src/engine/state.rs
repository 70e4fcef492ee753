//! What the engine knows between requests.

use std::rc::Rc;

use fanlight_messages::device::Quarantined;
use fanlight_messages::error::{Gone, LoadError};
use fanlight_messages::protocol::memory::ResetConversation;
use fanlight_messages::protocol::pager::CloseModel;
use fanlight_messages::protocol::submitter::RunId;

use super::calibrate::Calibration;
use super::journal::Journal;
use super::load::LoadedModel;
use super::mail::EngineLinks;
use super::quarantine::Quarantine;
use crate::memory::MemoryMail;

pub(super) struct Engine {
    pub(super) links: EngineLinks,
    pub(super) model: Option<LoadedModel>,
    /// What the cache holds.
    pub(super) journal: Journal,
    pub(super) last_run: RunId,
    /// What was on the device is gone or not to be trusted: the next request brings the model back.
    pub(super) is_lost: bool,
    pub(super) calibration: Calibration,
}

impl Engine {
    pub(super) fn new(links: EngineLinks) -> Self {
        Self {
            links,
            model: None,
            journal: Journal::default(),
            last_run: RunId::default(),
            is_lost: false,
            calibration: Calibration::default(),
        }
    }

    /// The submitter has dropped what was on the device; the next request brings it back, or says why not.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
        self.journal.clear();
    }

    /// The model does without these from now on.
    pub(super) fn quarantine(&mut self, found: &[Quarantined]) {
        if let Some(model) = &mut self.model {
            found.iter().for_each(|found| model.quarantine.add(found));
            self.links.telemetry.change_facts(|facts| facts.quarantine(found));
        }
    }

    /// The model was placed again, and these are all that it must not use.
    pub(super) fn placed(&mut self, quarantined: Option<&Quarantined>) {
        self.is_lost = false;
        self.journal.clear();
        if let Some(model) = &mut self.model {
            model.quarantine = Quarantine::new(quarantined);
        }
        let quarantined = quarantined.into_iter().cloned().collect();
        self.links.telemetry.change_facts(|facts| facts.quarantined = quarantined);
    }

    /// Forgets the model, and has everybody else forget it.
    pub(super) async fn unload(&mut self) -> Result<Result<(), LoadError>, Gone> {
        self.model = None;
        self.links.telemetry.change_facts(|facts| {
            facts.model = None;
            facts.quarantined.clear();
        });
        self.is_lost = false;
        self.calibration = Calibration::default();
        self.journal.clear();
        self.links.memory.tell(MemoryMail::Reset(ResetConversation)).await?;
        self.links.pager.ask(CloseModel).await
    }

    /// Tokens per prompt batch, where so many were asked for.
    pub(super) fn chunk_tokens(&self, wanted: u32) -> u32 {
        self.model.as_ref().map_or(wanted, |model| model.quarantine.chunk_tokens(wanted))
    }

    /// What telemetry shows of the model.
    pub(super) fn show_facts(&self, plan: &fanlight_messages::plan::GpuPlan) {
        let facts = self.model.as_ref().map(|model| Rc::new(model.facts(plan)));
        self.links.telemetry.change_facts(|known| known.model = facts);
    }
}

/// An actor that is gone ends the engine; anything else is an answer.
pub(super) fn unless_gone<T>(result: Result<T, LoadError>) -> Result<Result<T, LoadError>, Gone> {
    match result {
        Err(LoadError::EngineGone(gone)) => Err(gone),
        result => Ok(result),
    }
}
