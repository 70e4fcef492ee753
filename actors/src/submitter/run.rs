//! One run: submits what the core decides, awaits what is in flight, tells what completed.

use std::collections::VecDeque;

use futures::future::{Either, LocalBoxFuture, select};
use futures::{FutureExt, pin_mut};

use fanlight_messages::device::WindowReport;
use fanlight_messages::draft::Width;
use fanlight_messages::error::DeviceError;
use fanlight_messages::protocol::controller::ObserveWindow;
use fanlight_messages::protocol::engine::DraftStats;
use fanlight_messages::protocol::submitter::{BeginDecode, RunEvent};
use fanlight_messages::protocol::telemetry::{RecordDrafts, RecordSample};

use super::core::{Done, RunCore, Submission};
use super::shell::{SubmitterLinks, SubmitterMail};
use crate::backend::BackendModel;
use crate::kit::{Mailbox, Permit, StreamSender};

/// A submission whose report is awaited; its place in the stream of events is reserved.
struct InFlight {
    report: LocalBoxFuture<'static, Result<WindowReport, DeviceError>>,
    permit: Permit<RunEvent>,
    submitted_us: u64,
}

/// What the run waits for next.
enum Next {
    Report(Result<WindowReport, DeviceError>),
    Place(Permit<RunEvent>),
    Control(Option<SubmitterMail>),
    ReaderGone,
}

/// Runs a request to its end. `control` answers control mail and returns true when the run is to stop.
pub(super) async fn run<M: BackendModel>(
    model: &mut M,
    begin: &BeginDecode,
    events: &StreamSender<RunEvent>,
    mailbox: &mut Mailbox<SubmitterMail>,
    links: &SubmitterLinks,
    mut control: impl FnMut(SubmitterMail) -> bool,
) -> Result<(), DeviceError> {
    model.prepare(begin.width, &begin.setup.sampling).await?;
    model.begin(&begin.setup)?;
    let mut core = RunCore::new(begin);
    let mut in_flight: VecDeque<InFlight> = VecDeque::new();
    let mut completed_us = 0;
    let mut failure = None;
    let mut orphaned = false;
    loop {
        while let Some(permit) = core.wants_submission().then(|| events.try_reserve()).flatten() {
            match submit(model, begin, &mut core, links) {
                Ok(report) => {
                    in_flight.push_back(InFlight { report, permit, submitted_us: links.clock.now_us() });
                }
                Err(error) => {
                    failure.get_or_insert(error);
                    core.stop();
                    break;
                }
            }
        }
        if in_flight.is_empty() && (failure.is_some() || core.is_over()) {
            return failure.map_or(Ok(()), Err);
        }
        match next(&core, &mut in_flight, events, (!orphaned).then_some(&mut *mailbox)).await {
            Next::Place(permit) => drop(permit),
            Next::ReaderGone => core.stop(),
            Next::Control(None) => {
                orphaned = true;
                core.stop();
            }
            Next::Control(Some(mail)) => {
                if control(mail) {
                    core.stop();
                }
            }
            Next::Report(result) => {
                let Some(done) = in_flight.pop_front() else { continue };
                match result {
                    Ok(report) if failure.is_none() => {
                        let now_us = links.clock.now_us();
                        // The device worked on this one since the one before it ended.
                        let elapsed_us = now_us.saturating_sub(completed_us.max(done.submitted_us));
                        completed_us = now_us;
                        if let Some(told) = core.complete(report, elapsed_us) {
                            tell(told, elapsed_us, links, done.permit);
                        }
                    }
                    Ok(_) => {}
                    Err(error) => {
                        failure.get_or_insert(error);
                        core.stop();
                    }
                }
            }
        }
    }
}

/// Submits the next piece; the caller holds its place in the stream.
fn submit<M: BackendModel>(
    model: &mut M,
    begin: &BeginDecode,
    core: &mut RunCore,
    links: &SubmitterLinks,
) -> Result<LocalBoxFuture<'static, Result<WindowReport, DeviceError>>, DeviceError> {
    let plan = links.plan.get();
    Ok(match core.next_submission(plan.steps) {
        Some(Submission::Prompt { base, range, choose }) => {
            model.prefill(base, &begin.tokens[range], choose)?.boxed_local()
        }
        Some(Submission::Window { steps }) => {
            model.window(steps, narrower(plan.width, begin.width))?.boxed_local()
        }
        None => std::future::pending().boxed_local(),
    })
}

/// The plan's width, which may still be that of the request before, within what was prepared for this one.
pub(super) fn narrower(plan: Width, prepared: Width) -> Width {
    if plan.rows() <= prepared.rows() && prepared != Width::Off { plan } else { prepared }
}

/// Waits for the oldest report, control mail, a place in the stream or the end of its reader.
async fn next(
    core: &RunCore,
    in_flight: &mut VecDeque<InFlight>,
    events: &StreamSender<RunEvent>,
    mailbox: Option<&mut Mailbox<SubmitterMail>>,
) -> Next {
    let wants_place = core.wants_submission();
    let control = async {
        match mailbox {
            Some(mailbox) => mailbox.next_control().await,
            None => std::future::pending().await,
        }
    };
    let reader = async {
        if !wants_place {
            // Once the run is stopped only reports matter; until then a reader that left stops it.
            return std::future::pending().await;
        }
        match events.reserve().await {
            Ok(permit) => Next::Place(permit),
            Err(_) => Next::ReaderGone,
        }
    };
    let report = async {
        match in_flight.front_mut() {
            Some(oldest) => Next::Report((&mut oldest.report).await),
            None => std::future::pending().await,
        }
    };
    pin_mut!(control, reader, report);
    match select(control, select(report, reader)).await {
        Either::Left((mail, _)) => Next::Control(mail),
        Either::Right((Either::Left((next, _)), _)) | Either::Right((Either::Right((next, _)), _)) => next,
    }
}

pub(super) fn tell(done: Done, elapsed_us: u64, links: &SubmitterLinks, permit: Permit<RunEvent>) {
    match &done.event {
        RunEvent::PassAdvanced { .. } => {}
        RunEvent::PromptEvaluated { tokens, .. } => {
            links.record(RecordSample::Prompt { tokens: *tokens, elapsed_us });
        }
        RunEvent::WindowCompleted { steps, report, .. } => {
            let tokens = report.tokens.len() as u32;
            links.record(RecordSample::Window { steps: *steps, tokens, elapsed_us });
            let mut drafts = DraftStats::default();
            report.steps.iter().for_each(|step| drafts.add(step));
            links.telemetry.record_drafts(RecordDrafts(drafts));
        }
    }
    // Steps after the end do nothing; what they take says nothing about a step.
    if let Some(steps) = done.steps.filter(|_| !done.has_ended) {
        links.observe(ObserveWindow { steps, elapsed_us });
    }
    permit.send(done.event);
}
