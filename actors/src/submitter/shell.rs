//! The submitter's loop: one request at a time; while a run goes on, only control mail is read.

use std::rc::Rc;

use fanlight_messages::backend::{Backend, BackendModel, StreamedModel};
use fanlight_messages::device::Quarantined;
use fanlight_messages::error::DeviceError;
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::protocol::Lane;
use fanlight_messages::protocol::Request;
use fanlight_messages::protocol::controller::{ObserveWindow, PlanChosen};
use fanlight_messages::protocol::engine::{LoadPhase, LoadProgress};
use fanlight_messages::protocol::submitter::*;
use fanlight_messages::protocol::telemetry::RecordSample;

use super::gap::Gaps;
use super::pace::Pace;
use super::run::{Heard, run};
use super::streamed::{Told, run_streamed};
use crate::controller::ControllerMail;
use crate::kit::{Addr, Asked, Clock, Latch, Mail, Mailbox, StreamSender};
use crate::telemetry::TelemetryLink;

/// What the submitter is asked.
pub enum SubmitterMail {
    /// See [`DescribeDevice`].
    Describe(Asked<DescribeDevice>),
    /// See [`CreateModel`].
    Create(Asked<CreateModel>),
    /// See [`UploadMatrix`].
    Matrix(Asked<UploadMatrix>),
    /// See [`UploadVector`].
    Vector(Asked<UploadVector>),
    /// See [`CompilePipelines`]; beside it, where progress is latched.
    Compile(Asked<CompilePipelines>, Latch<LoadProgress>),
    /// See [`MeasureChoice`].
    Choice(Asked<MeasureChoice>),
    /// See [`DropModel`].
    Drop(Asked<DropModel>),
    /// See [`ReopenDevice`].
    Reopen(Asked<ReopenDevice>),
    /// See [`BeginDecode`]; beside it, where its events go, and its demands when its weights stream.
    Begin(Asked<BeginDecode>, StreamSender<RunEvent>, Option<StreamSender<Demand>>),
    /// See [`StreamRows`].
    Stream(Asked<StreamRows>),
    /// See [`GatherRows`].
    Gather(Asked<GatherRows>),
    /// See [`PauseDecode`].
    Pause(Asked<PauseDecode>),
    /// See [`EndDecode`].
    End(Asked<EndDecode>),
}

impl Mail for SubmitterMail {
    fn lane(&self) -> Lane {
        match self {
            Self::Describe(_) => DescribeDevice::LANE,
            Self::Pause(_) => PauseDecode::LANE,
            Self::End(_) => EndDecode::LANE,
            _ => Lane::Inbox,
        }
    }
}

macro_rules! from_asked {
    ($($variant:ident($request:ty)),*) => {$(
        impl From<Asked<$request>> for SubmitterMail {
            fn from(asked: Asked<$request>) -> Self {
                Self::$variant(asked)
            }
        }
    )*};
}
from_asked!(
    Describe(DescribeDevice),
    Create(CreateModel),
    Matrix(UploadMatrix),
    Vector(UploadVector),
    Choice(MeasureChoice),
    Drop(DropModel),
    Reopen(ReopenDevice),
    Stream(StreamRows),
    Gather(GatherRows),
    Pause(PauseDecode),
    End(EndDecode)
);

/// Whom the submitter tells.
#[derive(Clone)]
pub struct SubmitterLinks {
    /// What windows cost; droppable.
    pub controller: Addr<ControllerMail>,
    /// Samples; droppable.
    pub telemetry: TelemetryLink,
    /// The plan of windows to come.
    pub plan: Latch<PlanChosen>,
    /// Why nothing is in flight.
    pub gaps: Gaps,
    /// Time.
    pub clock: Clock,
}

impl SubmitterLinks {
    pub(super) fn observe(&self, window: ObserveWindow) {
        // A full queue means that the controller has enough to go by.
        self.controller.try_tell(ControllerMail::Observe(window));
    }

    pub(super) fn record(&self, sample: RecordSample) {
        self.telemetry.record(sample);
    }
}

/// The submitter's loop. It ends when every address is dropped.
pub async fn submitter<B: Backend>(
    mut mailbox: Mailbox<SubmitterMail>,
    backend: Rc<B>,
    links: SubmitterLinks,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut model: Option<Placed<B::Model>> = None;
    let mut ends = Ends::default();
    while let Some(mail) = mailbox.next().await {
        match mail {
            SubmitterMail::Create(asked) => {
                // The one before goes first: two models may not fit.
                model = None;
                let CreateModel { program, plan } = asked.request;
                let created = backend.create(program, plan.clone()).await;
                let created = created.map(|on_device| model = Some(Placed::new(on_device, plan)));
                links.gaps.restart();
                mailbox.answer(asked.reply, created);
            }
            SubmitterMail::Matrix(asked) => {
                let uploaded = upload_matrix(model.as_mut(), &asked.request).await;
                asked.reply.send(uploaded.map(|()| asked.request.bytes));
            }
            SubmitterMail::Vector(asked) => asked.reply.send(upload_vector(model.as_mut(), &asked.request)),
            SubmitterMail::Compile(asked, latch) => {
                let compiled = compile(model.as_mut(), &latch).await;
                mailbox.answer(asked.reply, compiled);
            }
            SubmitterMail::Choice(asked) => {
                let timed = time_choice(&mut model).await;
                mailbox.answer(asked.reply, timed);
            }
            SubmitterMail::Drop(asked) => {
                model = None;
                asked.reply.send(());
            }
            SubmitterMail::Reopen(asked) => {
                model = None;
                let reopened = backend.reopen().await;
                mailbox.answer(asked.reply, reopened.map(|()| backend.facts()));
            }
            SubmitterMail::Begin(asked, events, demands) => {
                let result = match &mut model {
                    None => Err(DeviceError::NoModel),
                    // Its end came first.
                    Some(_) if ends.heard(asked.request.run) != Heard::Nothing => Ok(RunOver::default()),
                    Some(model) => {
                        let current = asked.request.run;
                        let control = |mail| {
                            ends.answer(mail, backend.as_ref());
                            ends.heard(current)
                        };
                        model.run(&asked.request, &events, demands, &mut mailbox, &links, control).await
                    }
                };
                if result.is_err() {
                    // What is on the device can no longer be trusted; a new load starts clean.
                    model = None;
                }
                drop(events);
                mailbox.answer(asked.reply, result);
            }
            // What a run had asked for that has ended.
            SubmitterMail::Stream(asked) => asked.reply.send(Ok(())),
            SubmitterMail::Gather(asked) => asked.reply.send(Ok(())),
            control => ends.answer(control, backend.as_ref()),
        }
    }
    Ok(())
}

/// A model on the device, and the plan that it obeys.
struct Placed<M> {
    on_device: M,
    plan: Rc<GpuPlan>,
    pace: Pace,
}

impl<M: StreamedModel> Placed<M> {
    fn new(on_device: M, plan: Rc<GpuPlan>) -> Self {
        Self { on_device, plan, pace: Pace::default() }
    }

    /// Runs a request to its end; with `demands` its weights stream.
    async fn run(
        &mut self,
        request: &BeginDecode,
        events: &StreamSender<RunEvent>,
        demands: Option<StreamSender<Demand>>,
        mailbox: &mut Mailbox<SubmitterMail>,
        links: &SubmitterLinks,
        control: impl FnMut(SubmitterMail) -> Heard,
    ) -> Result<RunOver, DeviceError> {
        let Some(demands) = demands else {
            return run(&mut self.on_device, request, events, mailbox, links, &mut self.pace, control).await;
        };
        let told = Told { events: events.clone(), demands };
        let plan = self.plan.clone();
        run_streamed(&mut self.on_device, plan, request, told, mailbox, links, control).await
    }
}

async fn compile<M: BackendModel>(
    model: Option<&mut Placed<M>>,
    latch: &Latch<LoadProgress>,
) -> Result<Option<Quarantined>, DeviceError> {
    let progress = |done, total| latch.set(LoadProgress { phase: LoadPhase::Pipelines, done, total });
    model.ok_or(DeviceError::NoModel)?.on_device.compile(progress).await
}

/// Times choosing a token; after a failure what is on the device can no longer be trusted.
async fn time_choice<M: BackendModel>(model: &mut Option<Placed<M>>) -> Result<u64, DeviceError> {
    let timed = model.as_mut().ok_or(DeviceError::NoModel)?.on_device.time_choice().await;
    if timed.is_err() {
        *model = None;
    }
    timed
}

fn upload_vector<M: BackendModel>(
    model: Option<&mut Placed<M>>,
    request: &UploadVector,
) -> Result<(), DeviceError> {
    let UploadVector { vector, element_offset, values } = request;
    model.ok_or(DeviceError::NoModel)?.on_device.upload_vector(*vector, *element_offset, values)
}

async fn upload_matrix<M: BackendModel>(
    model: Option<&mut Placed<M>>,
    request: &UploadMatrix,
) -> Result<(), DeviceError> {
    let UploadMatrix { matrix, first_row, bytes } = request;
    let model = model.ok_or(DeviceError::NoModel)?;
    model.on_device.upload_matrix(*matrix, *first_row, bytes).await
}

/// The last runs that were told to end.
#[derive(Default)]
struct Ends {
    paused: RunId,
    ended: RunId,
}

impl Ends {
    /// What a run has been told.
    fn heard(&self, run: RunId) -> Heard {
        match run {
            run if run <= self.ended => Heard::End,
            run if run <= self.paused => Heard::Pause,
            _ => Heard::Nothing,
        }
    }

    /// Answers mail of the control lane.
    fn answer<B: Backend>(&mut self, mail: SubmitterMail, backend: &B) {
        match mail {
            SubmitterMail::Describe(asked) => asked.reply.send(backend.facts()),
            SubmitterMail::Pause(asked) => {
                self.paused = self.paused.max(asked.request.run);
                asked.reply.send(());
            }
            SubmitterMail::End(asked) => {
                self.ended = self.ended.max(asked.request.run);
                asked.reply.send(());
            }
            // The other requests queue in the inbox; their askers hear `Gone` rather than nothing.
            other => drop(other),
        }
    }
}
