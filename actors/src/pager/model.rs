//! The model at hand: its files, the plan that is obeyed, and one that may replace it.

use std::rc::Rc;

use fanlight_messages::device::AdapterFacts;
use fanlight_messages::error::{GenerateError, LoadError};
use fanlight_messages::plan::{BUCKET_MAX, PlanRequest};
use fanlight_messages::program::Program;
use fanlight_messages::protocol::engine::LoadProgress;
use fanlight_messages::protocol::pager::*;
use fanlight_messages::protocol::submitter::{
    BeginDecode, DescribeDevice, DropModel, ReopenDevice, RunEvent, RunOver,
};
use fanlight_models::gguf::ModelFile;
use fanlight_pager::{Ledger, LedgerError, RowPlaces, plan_pass};

use super::feed::Streamed;
use super::mail::PagerLinks;
use super::open::{OpenedModel, open_model, read_files};
use super::place::{Placed, Placement, place_model};
use super::refusals::{Refusals, plan_error, residency_error};
use super::site::SubmitterSite;
use crate::kit::{Latch, Reply, StreamSender};
use crate::source::NamedSource;

/// A model whose files are open.
pub(super) struct Model {
    program: Rc<Program>,
    /// Gone once the weights are placed: a vocabulary takes tens of megabytes.
    file: Option<Rc<ModelFile>>,
    sources: Vec<NamedSource>,
    /// What is planned and not placed. A plan that is abandoned leaves what is placed alone.
    candidate: Option<Planned>,
    placed: Option<Planned>,
}

struct Planned {
    /// The adapter it was planned for.
    adapter: AdapterFacts,
    placement: Placement,
    ledger: Ledger,
    streamed: Streamed,
}

fn nothing_placed() -> LoadError {
    LoadError::Plan { reason: "no weights are placed: plan the residency and place them first".into() }
}

impl Model {
    /// Opens a model; its file goes to the engine too, which reads its text.
    pub(super) async fn open(
        sources: Vec<NamedSource>,
        file: &StreamSender<Rc<ModelFile>>,
    ) -> Result<(Self, ModelOpened), LoadError> {
        let OpenedModel { file: opened, program, sources } = open_model(sources).await?;
        let opened = Rc::new(opened);
        let file_bytes = sources.iter().map(NamedSource::len).sum();
        if let Some(place) = file.try_reserve() {
            place.send(opened.clone());
        }
        let answer = ModelOpened { program: program.clone(), file_bytes };
        Ok((Self { program, file: Some(opened), sources, candidate: None, placed: None }, answer))
    }

    /// Plans for the submitter's adapter and checks the budget before anything exists.
    pub(super) async fn plan(
        &mut self,
        request: &PlanResidency,
        links: &PagerLinks,
        refusals: &mut Refusals,
    ) -> Result<ResidencyPlanned, LoadError> {
        let facts = links.submitter.ask(DescribeDevice).await?;
        let plan_request = PlanRequest {
            context_len: request.context_len,
            batch_tokens: request.batch_tokens,
            logits_rows: BUCKET_MAX,
            kv_format: request.kv_format.unwrap_or(facts.kind.kv_default()),
            binding_bytes_max: facts.binding_bytes_max,
        };
        let program = &self.program;
        let (plan, was_reduced) = refusals.plan(program, plan_request, &facts, request.budget);
        let plan = plan.map_err(residency_error)?;
        let file = match &self.file {
            Some(file) => file.clone(),
            // It was let go when the weights were placed.
            None => Rc::new(read_files(self.sources.clone()).await?.0),
        };
        let table = plan.stream.as_ref().and_then(|stream| stream.gathers);
        let rows =
            table.map(|table| RowPlaces::new(program, table, &file)).transpose().map_err(plan_error)?;
        let pass = plan_pass(program, &plan, &file).map_err(plan_error)?;
        let streamed = Streamed::new(&plan, pass, rows, request.cache_bytes);
        let ledger = Ledger::new(request.budget.map_or(u64::MAX, |budget| budget.bytes));
        let plan = Rc::new(plan);
        let placement = Placement::new(program.clone(), plan.clone(), &file, self.sources.clone())?;
        self.candidate = Some(Planned { adapter: facts, placement, ledger, streamed });
        Ok(ResidencyPlanned { plan, was_reduced })
    }

    /// Places the weights by the plan made last, in place of what was on the device; `reply` tells whether
    /// that is still wanted.
    pub(super) async fn place<T>(
        &mut self,
        links: &PagerLinks,
        progress: &Latch<LoadProgress>,
        reply: &mut Reply<T>,
    ) -> Result<WeightsPlaced, LoadError> {
        let Some(planned) = self.candidate.take() else {
            return Err(LoadError::Plan { reason: "nothing is planned: plan the residency first".into() });
        };
        self.placed = Some(planned);
        self.put(links, progress, reply).await
    }

    /// The device refused the plan that was to be placed.
    pub(super) fn note_refusal(&self, refusals: &mut Refusals) {
        if let Some(placed) = &self.placed {
            refusals.note(&placed.adapter, placed.placement.plan.total_bytes());
        }
    }

    /// Places the model again on a device that is opened anew.
    pub(super) async fn restore<T>(
        &mut self,
        links: &PagerLinks,
        reply: &mut Reply<T>,
    ) -> Result<ModelRestored, LoadError> {
        let placed = self.placed.as_mut().ok_or_else(nothing_placed)?;
        // What was lost no longer takes memory.
        placed.ledger.release_all();
        let reopened = reply.while_wanted(links.submitter.ask(ReopenDevice)).await;
        let adapter = reopened.ok_or(LoadError::Cancelled)???;
        let wanted_bytes = placed.placement.plan.request.binding_bytes_max;
        if adapter.binding_bytes_max < wanted_bytes {
            let has = adapter.binding_bytes_max;
            let reason = format!(
                "the new adapter binds {has} bytes at once, the plan needs {wanted_bytes}: load again"
            );
            return Err(LoadError::Plan { reason });
        }
        let before = &placed.adapter;
        let same_adapter = (&before.name, &before.driver) == (&adapter.name, &adapter.driver);
        placed.adapter = adapter.clone();
        let placed = self.put(links, &Latch::new(LoadProgress::default()), reply).await?;
        Ok(ModelRestored { same_adapter, adapter, quarantined: placed.quarantined })
    }

    /// Creates, uploads and compiles; whatever fails, and when nobody wants it any more, nothing stays on the
    /// device.
    async fn put<T>(
        &mut self,
        links: &PagerLinks,
        progress: &Latch<LoadProgress>,
        reply: &mut Reply<T>,
    ) -> Result<WeightsPlaced, LoadError> {
        let placed = self.placed.as_mut().ok_or_else(nothing_placed)?;
        // The buffers of a model before go with `CreateModel`; this ledger knows only the new ones.
        for buffer in &placed.placement.plan.buffers {
            placed.ledger.enter(buffer.owner, buffer.bytes).map_err(|error| match error {
                LedgerError::OverBudget { wanted_bytes, used_bytes, budget_bytes, .. } => {
                    let wanted_bytes = used_bytes.saturating_add(wanted_bytes);
                    LoadError::OverBudget { wanted_bytes, budget_bytes }
                }
                other => plan_error(other),
            })?;
        }
        let mut site = SubmitterSite::new(links);
        let work = place_model(&mut site, &placed.placement, progress);
        match reply.while_wanted(work).await.unwrap_or(Err(LoadError::Cancelled)) {
            Ok(Placed { read_bytes, quarantined }) => {
                self.file = None;
                Ok(WeightsPlaced { read_bytes, peak_bytes: placed.ledger.peak_bytes(), quarantined })
            }
            Err(error) => {
                placed.ledger.release_all();
                links.submitter.ask(DropModel).await?;
                Err(error)
            }
        }
    }

    /// Runs a request whose weights stream; returns when it is over.
    pub(super) async fn run(
        &self,
        begin: BeginDecode,
        events: StreamSender<RunEvent>,
        links: &PagerLinks,
    ) -> Result<RunOver, GenerateError> {
        let placed = self.placed.as_ref().ok_or(GenerateError::NoModel)?;
        placed.streamed.run(begin, events, &self.sources, links).await
    }
}
