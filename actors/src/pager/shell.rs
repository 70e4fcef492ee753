//! The pager's loop: open, plan, place, close.

use std::rc::Rc;

use fanlight_messages::device::AdapterFacts;
use fanlight_messages::error::{DeviceError, GenerateError, LoadError};
use fanlight_messages::plan::{BUCKET_MAX, PlanRequest};
use fanlight_messages::program::Program;
use fanlight_messages::protocol::Lane;
use fanlight_messages::protocol::engine::LoadProgress;
use fanlight_messages::protocol::pager::*;
use fanlight_messages::protocol::submitter::{DescribeDevice, DropModel, ReopenDevice, RunEvent};
use fanlight_models::gguf::ModelFile;
use fanlight_pager::{Ledger, LedgerError, RowPlaces, plan_pass};

use super::feed::Streamed;
use super::open::{OpenedModel, open_model, read_files};
use super::place::{Placed, Placement, place_model};
use super::refusals::{Refusals, plan_error, residency_error};
use super::site::{SubmitterSite, gone};
use crate::kit::{Addr, Asked, Clock, Latch, Mail, Mailbox, StreamSender};
use crate::source::NamedSource;
use crate::submitter::SubmitterMail;
use crate::telemetry::TelemetryLink;

/// What the pager is asked.
pub enum PagerMail {
    /// See [`OpenModel`]; beside it the files, and where the opened file goes for the engine to read its text
    /// from.
    Open(Asked<OpenModel>, Vec<NamedSource>, StreamSender<Rc<ModelFile>>),
    /// See [`PlanResidency`].
    Plan(Asked<PlanResidency>),
    /// See [`PlaceWeights`]; beside it, where progress is latched.
    Place(Asked<PlaceWeights>, Latch<LoadProgress>),
    /// See [`StreamDecode`]; beside it, where the run's events go.
    Decode(Asked<StreamDecode>, StreamSender<RunEvent>),
    /// See [`RestoreModel`].
    Restore(Asked<RestoreModel>),
    /// See [`CloseModel`].
    Close(Asked<CloseModel>),
}

impl Mail for PagerMail {
    fn lane(&self) -> Lane {
        Lane::Inbox
    }
}

impl From<Asked<PlanResidency>> for PagerMail {
    fn from(asked: Asked<PlanResidency>) -> Self {
        Self::Plan(asked)
    }
}

impl From<Asked<RestoreModel>> for PagerMail {
    fn from(asked: Asked<RestoreModel>) -> Self {
        Self::Restore(asked)
    }
}

impl From<Asked<CloseModel>> for PagerMail {
    fn from(asked: Asked<CloseModel>) -> Self {
        Self::Close(asked)
    }
}

/// Whom the pager asks and tells.
#[derive(Clone)]
pub struct PagerLinks {
    /// The device.
    pub submitter: Addr<SubmitterMail>,
    /// Samples; droppable.
    pub telemetry: TelemetryLink,
    /// Time.
    pub clock: Clock,
}

/// The model at hand.
struct Model {
    program: Rc<Program>,
    /// Gone once the weights are placed: a vocabulary takes tens of megabytes.
    file: Option<Rc<ModelFile>>,
    sources: Vec<NamedSource>,
    planned: Option<Planned>,
}

struct Planned {
    /// The adapter it was planned for.
    adapter: AdapterFacts,
    placement: Placement,
    ledger: Ledger,
    streamed: Streamed,
}

/// The pager's loop. It ends when every address is dropped.
pub async fn pager(
    mut mailbox: Mailbox<PagerMail>,
    links: PagerLinks,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut model: Option<Model> = None;
    let mut refusals = Refusals::default();
    while let Some(mail) = mailbox.next().await {
        match mail {
            PagerMail::Open(asked, sources, file) => {
                model = None;
                let opened = begin_model(sources, &file).await;
                mailbox.note(&opened);
                asked.reply.send(opened.map(|(opened, answer)| {
                    model = Some(opened);
                    answer
                }));
            }
            PagerMail::Plan(asked) => {
                let planned = match &mut model {
                    Some(model) => plan(model, &asked.request, &links, &mut refusals).await,
                    None => Err(not_opened()),
                };
                mailbox.answer(asked.reply, planned);
            }
            PagerMail::Place(asked, progress) => {
                let is_abandoned = || asked.reply.is_abandoned();
                let placed = match &mut model {
                    Some(model) => place(model, &links, &progress, is_abandoned).await,
                    None => Err(not_opened()),
                };
                let planned = model.as_ref().and_then(|model| model.planned.as_ref());
                if let (Err(LoadError::Device(DeviceError::OutOfMemory { .. })), Some(planned)) =
                    (&placed, planned)
                {
                    refusals.note(&planned.adapter, planned.placement.plan.total_bytes());
                }
                mailbox.answer(asked.reply, placed);
            }
            PagerMail::Decode(asked, events) => {
                let StreamDecode(begin) = asked.request;
                let planned = model.as_ref().and_then(|model| Some((model, model.planned.as_ref()?)));
                let result = match planned {
                    Some((model, planned)) => {
                        planned.streamed.run(begin, events, &model.sources, &links).await
                    }
                    None => Err(GenerateError::NoModel),
                };
                mailbox.answer(asked.reply, result);
            }
            PagerMail::Restore(asked) => {
                let is_abandoned = || asked.reply.is_abandoned();
                let restored = match &mut model {
                    Some(model) => restore(model, &links, is_abandoned).await,
                    None => Err(not_opened()),
                };
                mailbox.answer(asked.reply, restored);
            }
            PagerMail::Close(asked) => {
                model = None;
                asked.reply.send(links.submitter.ask(DropModel).await.map_err(gone));
            }
        }
    }
    Ok(())
}

/// Opens a model; its file goes to the engine too, which reads its text.
async fn begin_model(
    sources: Vec<NamedSource>,
    file: &StreamSender<Rc<ModelFile>>,
) -> Result<(Model, ModelOpened), LoadError> {
    let OpenedModel { file: opened_file, program, sources } = open_model(sources).await?;
    let opened_file = Rc::new(opened_file);
    let file_bytes = sources.iter().map(NamedSource::len).sum();
    if let Some(place) = file.try_reserve() {
        place.send(opened_file.clone());
    }
    let answer = ModelOpened { program: program.clone(), file_bytes };
    Ok((Model { program, file: Some(opened_file), sources, planned: None }, answer))
}

fn not_opened() -> LoadError {
    LoadError::Model { reason: "no model file is open: open one first".into() }
}

/// Plans for the submitter's adapter and checks the budget before anything exists.
async fn plan(
    model: &mut Model,
    request: &PlanResidency,
    links: &PagerLinks,
    refusals: &mut Refusals,
) -> Result<ResidencyPlanned, LoadError> {
    let facts = links.submitter.ask(DescribeDevice).await.map_err(gone)?;
    let plan_request = PlanRequest {
        context_len: request.context_len,
        batch_tokens: request.batch_tokens,
        logits_rows: BUCKET_MAX,
        kv_format: request.kv_format,
        binding_bytes_max: facts.binding_bytes_max,
    };
    let program = &model.program;
    let (plan, was_reduced) = refusals.plan(program, plan_request, &facts, request.budget);
    let plan = plan.map_err(residency_error)?;
    let file = match &model.file {
        Some(file) => file.clone(),
        // It was let go when the weights were placed.
        None => Rc::new(read_files(model.sources.clone()).await?.0),
    };
    let table = plan.stream.as_ref().and_then(|stream| stream.gathers);
    let rows = table.map(|table| RowPlaces::new(program, table, &file)).transpose().map_err(plan_error)?;
    let pass = plan_pass(program, &plan, &file).map_err(plan_error)?;
    let streamed = Streamed::new(&plan, pass, rows, request.cache_bytes);
    let ledger = Ledger::new(request.budget.map_or(u64::MAX, |budget| budget.bytes));
    let plan = Rc::new(plan);
    let placement = Placement::new(program.clone(), plan.clone(), &file, model.sources.clone())?;
    model.planned = Some(Planned { adapter: facts, placement, ledger, streamed });
    Ok(ResidencyPlanned { plan, was_reduced })
}

/// Places a model again on the device that came back.
async fn restore(
    model: &mut Model,
    links: &PagerLinks,
    is_abandoned: impl Fn() -> bool,
) -> Result<ModelRestored, LoadError> {
    let Some(planned) = &mut model.planned else {
        return Err(LoadError::Plan { reason: "nothing was placed that could be restored".into() });
    };
    // What was lost no longer takes memory.
    planned.ledger.release_all();
    let adapter = links.submitter.ask(ReopenDevice).await.map_err(gone)??;
    let wanted_bytes = planned.placement.plan.request.binding_bytes_max;
    if adapter.binding_bytes_max < wanted_bytes {
        let has = adapter.binding_bytes_max;
        let reason =
            format!("the new adapter binds {has} bytes at once, the plan needs {wanted_bytes}: load again");
        return Err(LoadError::Plan { reason });
    }
    let before = &planned.adapter;
    let same_adapter = (&before.name, &before.driver) == (&adapter.name, &adapter.driver);
    planned.adapter = adapter.clone();
    let placed = place(model, links, &Latch::new(LoadProgress::default()), is_abandoned).await?;
    Ok(ModelRestored { same_adapter, adapter, quarantined: placed.quarantined })
}

/// Creates, uploads and compiles; whatever fails, nothing stays on the device.
async fn place(
    model: &mut Model,
    links: &PagerLinks,
    progress: &Latch<LoadProgress>,
    is_abandoned: impl Fn() -> bool,
) -> Result<WeightsPlaced, LoadError> {
    let Some(planned) = &mut model.planned else {
        return Err(LoadError::Plan { reason: "nothing is planned: plan the residency first".into() });
    };
    // The buffers of a model before go with `CreateModel`; this ledger knows only the new ones.
    for buffer in &planned.placement.plan.buffers {
        planned.ledger.enter(buffer.owner, buffer.bytes).map_err(|error| match error {
            LedgerError::OverBudget { wanted_bytes, used_bytes, budget_bytes, .. } => {
                LoadError::OverBudget { wanted_bytes: used_bytes.saturating_add(wanted_bytes), budget_bytes }
            }
            other => plan_error(other),
        })?;
    }
    let mut site = SubmitterSite::new(links);
    match place_model(&mut site, &planned.placement, progress, is_abandoned).await {
        Ok(Placed { read_bytes, quarantined }) => {
            model.file = None;
            Ok(WeightsPlaced { read_bytes, peak_bytes: planned.ledger.peak_bytes(), quarantined })
        }
        Err(error) => {
            planned.ledger.release_all();
            links.submitter.ask(DropModel).await.map_err(gone)?;
            Err(error)
        }
    }
}
