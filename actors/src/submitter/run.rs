//! One run: submits what the core decides, awaits what is in flight, tells what completed.

use std::collections::VecDeque;

use futures::future::{Either, LocalBoxFuture, select};
use futures::{FutureExt, pin_mut};

use fanlight_messages::backend::BackendModel;
use fanlight_messages::device::WindowReport;
use fanlight_messages::draft::Width;
use fanlight_messages::error::DeviceError;
use fanlight_messages::protocol::controller::ObserveWindow;
use fanlight_messages::protocol::engine::DraftStats;
use fanlight_messages::protocol::submitter::{BeginDecode, RunEvent, RunOver};
use fanlight_messages::protocol::telemetry::{GapCause, Piece, PieceKind, RecordDrafts, RecordSample};

use super::core::{Done, RunCore, Submission};
use super::pace::Pace;
use super::shell::{SubmitterLinks, SubmitterMail};
use super::widths::Widths;
use crate::kit::{Mailbox, Permit, StreamSender, yield_now};

/// A submission whose report is awaited; its place in the stream of events is reserved.
struct InFlight {
    report: LocalBoxFuture<'static, Result<WindowReport, DeviceError>>,
    permit: Permit<RunEvent>,
    /// What is known of it so far.
    piece: Piece,
    /// Whether a pipeline was compiled meanwhile, which takes the host's time.
    is_disturbed: bool,
}

/// What the run waits for next.
enum Next {
    Report(Result<WindowReport, DeviceError>),
    Place(Permit<RunEvent>),
    /// The device was left alone for as long as the plan says.
    Rested,
    Control(Option<SubmitterMail>),
    ReaderGone,
}

/// What control mail means for the run under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Heard {
    Nothing,
    /// Nothing more is to be begun.
    Pause,
    /// Nothing of it is wanted any more.
    End,
}

/// Runs a request to its end. `control` answers control mail and returns what it means for the run: windows
/// that are submitted end by themselves, so that a pause is as good as an end.
pub(super) async fn run<M: BackendModel>(
    model: &mut M,
    begin: &BeginDecode,
    events: &StreamSender<RunEvent>,
    mailbox: &mut Mailbox<SubmitterMail>,
    links: &SubmitterLinks,
    pace: &mut Pace,
    mut control: impl FnMut(SubmitterMail) -> Heard,
) -> Result<RunOver, DeviceError> {
    let Some(mut widths) = prepare(model, begin, mailbox, &mut control, links).await? else {
        return Ok(RunOver::default());
    };
    model.begin(&begin.setup)?;
    let mut core = RunCore::new(begin);
    let mut in_flight: VecDeque<InFlight> = VecDeque::new();
    let (mut completed_us, mut failure, mut orphaned) = (0, None, false);
    loop {
        while let Some(permit) = may_submit(&core, &in_flight, completed_us, links)
            .is_some_and(|rest_us| rest_us == 0)
            .then(|| events.try_reserve())
            .flatten()
        {
            match submit(model, begin, &mut core, &mut widths, links, pace).await {
                Ok(submitted) => track(&mut in_flight, submitted, permit, links),
                Err(error) => {
                    fail(&mut failure, &mut core, error);
                    break;
                }
            }
        }
        if in_flight.is_empty() && (failure.is_some() || core.is_over()) {
            let over = RunOver { quarantined: widths.quarantined() };
            return failure.map_or(Ok(over), Err);
        }
        let rest_us = may_submit(&core, &in_flight, completed_us, links);
        match next(rest_us, &mut in_flight, events, (!orphaned).then_some(&mut *mailbox), links).await {
            Next::Place(permit) => drop(permit),
            Next::Rested => {}
            Next::ReaderGone => core.stop(),
            Next::Control(None) => {
                orphaned = true;
                core.stop();
            }
            Next::Control(Some(mail)) => {
                if control(mail) != Heard::Nothing {
                    core.finish();
                }
            }
            Next::Report(result) => {
                let Some(done) = in_flight.pop_front() else { continue };
                match result {
                    Ok(report) if failure.is_none() => {
                        complete(&mut core, done, report, &mut completed_us, links, pace);
                        if core.wants_submission() {
                            // The controller hears of it before the next window takes its plan.
                            yield_now().await;
                            // And a stop that came meanwhile is heard before that window too.
                            if is_stopped(mailbox, &mut control) {
                                core.stop();
                            }
                        }
                    }
                    Ok(_) => {}
                    Err(error) => fail(&mut failure, &mut core, error),
                }
            }
        }
    }
}

/// The first failure ends the run; what is in flight still lands.
fn fail(failure: &mut Option<DeviceError>, core: &mut RunCore, error: DeviceError) {
    failure.get_or_insert(error);
    core.stop();
}

/// Compiles what the first step needs. Nothing runs meanwhile, and an end is heard between two pipelines:
/// `None`, there is nothing to run then.
async fn prepare<M: BackendModel>(
    model: &mut M,
    begin: &BeginDecode,
    mailbox: &mut Mailbox<SubmitterMail>,
    control: &mut impl FnMut(SubmitterMail) -> Heard,
    links: &SubmitterLinks,
) -> Result<Option<Widths>, DeviceError> {
    links.gaps.begin_run(begin.asked_us);
    let (first, mut widths) = (begin.width.limit(Width::Off), Widths::new());
    while !widths.is_settled(first) {
        widths.advance(model, first).await?;
        if is_stopped(mailbox, control) {
            return Ok(None);
        }
    }
    model.prepare_sampling(&begin.setup.sampling).await?;
    links.gaps.spend(GapCause::Compile);
    Ok((!is_stopped(mailbox, control)).then_some(widths))
}

/// Tells what came of the oldest submission.
fn complete(
    core: &mut RunCore,
    done: InFlight,
    report: WindowReport,
    completed_us: &mut u64,
    links: &SubmitterLinks,
    pace: &mut Pace,
) {
    let InFlight { mut piece, is_disturbed, permit, .. } = done;
    // The device worked on this one since the one before it ended.
    piece.began_us = piece.submitted_us.max(*completed_us);
    piece.completed_us = links.clock.now_us();
    *completed_us = piece.completed_us;
    let elapsed_us = piece.elapsed_us();
    if let Some(told) = core.complete(report, elapsed_us) {
        match &told.event {
            RunEvent::PromptEvaluated { tokens, .. } => pace.prompt(*tokens, elapsed_us),
            // Steps after the end take no time.
            RunEvent::WindowCompleted { steps, .. } if !told.has_ended => {
                pace.window(piece.width, *steps, elapsed_us);
            }
            RunEvent::WindowCompleted { .. } | RunEvent::PassAdvanced { .. } => {}
        }
        tell(told, piece, links, (is_disturbed, permit));
    }
}

/// Answers control mail that is there already; true when it stops the run.
fn is_stopped(
    mailbox: &mut Mailbox<SubmitterMail>,
    control: &mut impl FnMut(SubmitterMail) -> Heard,
) -> bool {
    let mut is_stopped = false;
    while let Some(Some(mail)) = mailbox.next_control().now_or_never() {
        is_stopped |= control(mail) != Heard::Nothing;
    }
    is_stopped
}

/// What was just submitted.
struct Submitted {
    report: LocalBoxFuture<'static, Result<WindowReport, DeviceError>>,
    piece: Piece,
    has_compiled: bool,
}

/// Submits the next piece, split where it would keep the device for too long.
async fn submit<M: BackendModel>(
    model: &mut M,
    begin: &BeginDecode,
    core: &mut RunCore,
    widths: &mut Widths,
    links: &SubmitterLinks,
    pace: &Pace,
) -> Result<Option<Submitted>, DeviceError> {
    let plan = links.plan.get();
    Ok(match core.next_submission(plan.steps) {
        Some(Submission::Prompt { base, range, choose }) => {
            let parts = pace.prompt_parts(range.len(), plan.cap_us);
            let report = model.prefill(base, &begin.tokens[range], choose, parts)?;
            let piece = piece(begin, PieceKind::Prompt, Width::Off, 0);
            Some(Submitted { report: report.boxed_local(), piece, has_compiled: false })
        }
        Some(Submission::Window { steps }) => {
            // The plan may still be that of the request before.
            let planned = begin.width.limit(plan.width);
            links.gaps.spend(GapCause::Host);
            let (width, has_compiled) = widths.next(model, planned, &links.clock).await?;
            links.gaps.spend(GapCause::Compile);
            let report = model.window(steps, width, pace.step_parts(width, plan.cap_us))?;
            let mut piece = piece(begin, PieceKind::Window, width, steps);
            piece.expect(&plan);
            Some(Submitted { report: report.boxed_local(), piece, has_compiled })
        }
        None => None,
    })
}

/// Awaits its report behind those of what is in flight; `permit` is its place in the stream.
fn track(
    in_flight: &mut VecDeque<InFlight>,
    submitted: Option<Submitted>,
    permit: Permit<RunEvent>,
    links: &SubmitterLinks,
) {
    let Some(Submitted { report, mut piece, has_compiled }) = submitted else { return };
    in_flight.iter_mut().for_each(|window| window.is_disturbed |= has_compiled);
    piece.submitted_us = links.clock.now_us();
    links.gaps.spend(GapCause::Host);
    piece.gap = links.gaps.take(!in_flight.is_empty());
    in_flight.push_back(InFlight { report, permit, piece, is_disturbed: has_compiled });
}

/// A piece of a run of which nothing is known yet but what it is.
pub(super) fn piece(begin: &BeginDecode, kind: PieceKind, width: Width, steps: u32) -> Piece {
    Piece::new(if begin.asked_us.is_some() { kind } else { PieceKind::Measurement }, width, steps)
}

/// In how many microseconds something may be submitted; `None` when first something else must happen. Where
/// the plan has gaps one window is in flight, and the next one waits.
fn may_submit(
    core: &RunCore,
    in_flight: &VecDeque<InFlight>,
    completed_us: u64,
    links: &SubmitterLinks,
) -> Option<u64> {
    let gap_us = links.plan.get().gap_us;
    match core.wants_submission() {
        false => None,
        true if gap_us == 0 || !core.is_decoding() => Some(0),
        true if !in_flight.is_empty() => None,
        true => Some((completed_us + gap_us).saturating_sub(links.clock.now_us())),
    }
}

/// Waits for the oldest report, control mail, the end of a gap, a place in the stream or the end of its
/// reader.
async fn next(
    rest_us: Option<u64>,
    in_flight: &mut VecDeque<InFlight>,
    events: &StreamSender<RunEvent>,
    mailbox: Option<&mut Mailbox<SubmitterMail>>,
    links: &SubmitterLinks,
) -> Next {
    let control = async {
        match mailbox {
            Some(mailbox) => mailbox.next_control().await,
            None => std::future::pending().await,
        }
    };
    let reader = async {
        match rest_us {
            // Only reports matter; until then a reader that left stops the run.
            None => return std::future::pending().await,
            Some(0) => {}
            Some(rest_us) => {
                links.clock.sleep(rest_us).await;
                return Next::Rested;
            }
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
    let next = match select(control, select(report, reader)).await {
        Either::Left((mail, _)) => Next::Control(mail),
        Either::Right((Either::Left((next, _)), _)) | Either::Right((Either::Right((next, _)), _)) => next,
    };
    match &next {
        Next::Report(_) => links.gaps.restart(),
        Next::Place(_) => links.gaps.spend(GapCause::Consumer),
        Next::Rested => links.gaps.spend(GapCause::Rest),
        Next::Control(_) | Next::ReaderGone => {}
    }
    next
}

/// Tells the engine, the controller and telemetry what came of a piece.
pub(super) fn tell(
    done: Done,
    mut piece: Piece,
    links: &SubmitterLinks,
    (is_disturbed, permit): (bool, Permit<RunEvent>),
) {
    match &done.event {
        RunEvent::PassAdvanced { .. } => {}
        RunEvent::PromptEvaluated { tokens, .. } => {
            piece.tokens = *tokens;
            links.record(RecordSample::Piece(piece));
        }
        RunEvent::WindowCompleted { steps, report, .. } => {
            (piece.tokens, piece.live_steps) = (report.tokens.len() as u32, report.steps.len() as u32);
            links.record(RecordSample::Piece(piece));
            // Steps after the end do nothing; what they take says nothing about a step.
            if !done.has_ended {
                let (steps, records) = (*steps, report.steps.clone());
                let elapsed_us = (!is_disturbed).then_some(piece.elapsed_us());
                links.observe(ObserveWindow { width: piece.width, steps, elapsed_us, records });
            }
            let mut drafts = DraftStats::default();
            report.steps.iter().for_each(|step| drafts.add(step));
            links.telemetry.record_drafts(RecordDrafts(drafts));
        }
    }
    permit.send(done.event);
}
