//! What the engine does while nobody asks for anything: it measures what the controller does not know yet.
//!
//! A measurement is a run like any other, behind what the cache holds, whose tokens nobody sees. Mail ends
//! it.

use std::collections::BTreeMap;

use futures::FutureExt;

use fanlight_messages::control::{TOKENS_PER_STEP_MAX, WINDOWS_IN_FLIGHT};
use fanlight_messages::device::RequestSetup;
use fanlight_messages::draft::WidthPolicy;
use fanlight_messages::error::Gone;
use fanlight_messages::limits::CALIBRATION_US_MAX;
use fanlight_messages::protocol::controller::{ChooseMeasurement, PlanChosen};
use fanlight_messages::protocol::engine::{Generate, Prompt};
use fanlight_messages::protocol::submitter::{MeasureChoice, RunEvent};
use fanlight_messages::sampling::ChoiceWork;

use super::door::Door;
use super::mail::EngineMail;
use super::session::NextRun;
use super::state::Engine;

/// Windows of a measurement: the first may find a device that had gone to sleep, and of the next two the
/// quicker one counts.
const MEASURED_WINDOWS: u32 = 3;

/// Whether measuring is wanted, and what it has cost.
#[derive(Debug, Default)]
pub(super) struct Calibration {
    /// A reply has let the controller choose, and not everything is known.
    pub is_wanted: bool,
    /// Microseconds spent on the loaded model.
    pub spent_us: u64,
    /// How the last reply chose its tokens, when nobody knows yet what that takes.
    choice_wanted: Option<ChoiceWork>,
    /// Nanoseconds of a choice.
    choices: BTreeMap<ChoiceWork, u64>,
}

impl Engine {
    /// A reply is over: plans what to measure, and gives the nanoseconds of a choice such as its own when
    /// they are known.
    pub(super) fn plan_measurements(&mut self, request: &Generate) -> Option<u64> {
        let model = self.model.as_ref().filter(|_| !self.is_lost)?;
        // On a processor one pipeline takes as long as many replies.
        self.calibration.is_wanted = matches!(request.width, WidthPolicy::Auto { .. })
            && !model.adapter.is_software()
            && !model.streams;
        let work = request.sampling.work(model.vocabulary_len);
        let known = self.calibration.choices.get(&work).copied();
        self.calibration.choice_wanted = known.is_none().then_some(work);
        known
    }

    /// The next mail. While there is none, what the controller does not know yet is measured.
    pub(super) async fn idle(&mut self, door: &mut Door) -> Result<Option<EngineMail>, Gone> {
        if self.calibration.choice_wanted.is_some() {
            if let Some(mail) = door.try_next() {
                return Ok(mail);
            }
            self.measure_choice().await?;
        }
        while self.calibration.is_wanted && self.calibration.spent_us < CALIBRATION_US_MAX {
            if let Some(mail) = door.try_next() {
                return Ok(mail);
            }
            let wanted = self.links.controller.ask(ChooseMeasurement).await?;
            let Some((plan, run)) = wanted.and_then(|plan| Some((plan, self.measurement(plan)?))) else {
                self.calibration.is_wanted = false;
                break;
            };
            let started_us = self.links.clock.now_us();
            let mail = self.measure(plan, run, door).await?;
            self.calibration.spent_us += self.links.clock.now_us().saturating_sub(started_us);
            if let Some(mail) = mail {
                return Ok(mail);
            }
        }
        Ok(door.next().await)
    }

    /// Measures what choosing a token takes in the way of the last reply: a few milliseconds, seldom.
    async fn measure_choice(&mut self) -> Result<(), Gone> {
        let Some(work) = self.calibration.choice_wanted.take() else { return Ok(()) };
        match self.links.submitter.ask(MeasureChoice).await? {
            Ok(ns) => {
                self.calibration.choices.insert(work, ns);
            }
            Err(_) => self.lose(),
        }
        Ok(())
    }

    /// A run that continues what the cache holds; `None` where there is nothing, or no room behind it.
    fn measurement(&self, plan: PlanChosen) -> Option<NextRun> {
        let model = self.model.as_ref().filter(|_| !self.is_lost)?;
        let base = self.journal.len().checked_sub(1)?;
        // Its first token, and as many as its windows and those in flight behind them can emit.
        let windows = MEASURED_WINDOWS + WINDOWS_IN_FLIGHT;
        let token_limit = 1 + windows * plan.steps * TOKENS_PER_STEP_MAX;
        let context_len = model.context_len;
        let setup = RequestSetup { context_len, token_limit, ..RequestSetup::default() };
        let chunk_tokens = self.chunk_tokens(model.batch_tokens);
        let fits = self.journal.len() as u64 + u64::from(token_limit) <= u64::from(context_len);
        fits.then(|| NextRun { prompt: self.journal.ids().into(), base, setup, chunk_tokens })
    }

    /// Runs windows of a plan; the controller hears of them as of any others. Returns the mail that came
    /// meanwhile, if any did.
    async fn measure(
        &mut self,
        plan: PlanChosen,
        next: NextRun,
        door: &mut Door,
    ) -> Result<Option<Option<EngineMail>>, Gone> {
        let request = Generate {
            window_steps: Some(plan.steps),
            width: WidthPolicy::Fixed(plan.width),
            ..Generate::new(Prompt::Ids(next.prompt.clone()), next.setup.token_limit)
        };
        let mut run = self.begin(&next, &request, None).await?;
        // The last token is evaluated again, at its own position and to the same bits.
        self.journal.commit(&next.prompt[next.base..]);
        let (mut heard, mut windows) = (None, 0);
        loop {
            let event = match &heard {
                Some(_) => Ok(run.events.next().await),
                None => door.or(run.events.next().boxed_local()).await,
            };
            match event {
                Ok(None) => break,
                Ok(Some(RunEvent::WindowCompleted { .. })) => windows += 1,
                Ok(Some(RunEvent::PassAdvanced { .. } | RunEvent::PromptEvaluated { .. })) => continue,
                Err(mail) => heard = Some(mail),
            }
            // Mail ends it, and so do enough windows; what is in flight lands.
            if windows == MEASURED_WINDOWS || heard.is_some() {
                self.end_run().await?;
            }
        }
        match run.over().await? {
            Ok(over) => self.quarantine(&over.quarantined),
            Err(_) => self.lose(),
        }
        Ok(heard)
    }
}
