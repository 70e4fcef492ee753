//! A run whose weights stream: one pass after the other, each continued as its pages arrive.

use std::rc::Rc;

use futures::future::{Either, LocalBoxFuture, select};
use futures::{FutureExt, pin_mut};

use fanlight_messages::backend::StreamedModel;
use fanlight_messages::device::{PassWork, WindowReport};
use fanlight_messages::draft::Width;
use fanlight_messages::error::DeviceError;
use fanlight_messages::limits::PASS_REPORT_US;
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::protocol::submitter::{
    BeginDecode, Demand, GatherRows, RunEvent, RunOver, StreamRows,
};
use fanlight_messages::protocol::telemetry::{GapCause, Piece, PieceKind};

use super::core::{RunCore, Submission};
use super::run::{Heard, piece as piece_of, tell};
use super::shell::{SubmitterLinks, SubmitterMail};
use super::widths::Widths;
use crate::kit::{Asked, Mailbox, Permit, StreamSender};

/// Where a run tells what happens, and what it wants.
pub(super) struct Told {
    pub events: StreamSender<RunEvent>,
    pub demands: StreamSender<Demand>,
}

/// How far the run is.
enum Stage {
    /// Between passes.
    Idle,
    /// The tokens of a step are read back, to tell which embedding rows it needs.
    Drafting(LocalBoxFuture<'static, Result<Vec<u32>, DeviceError>>),
    /// Embedding rows are on their way.
    Gathering,
    /// The pass runs as far as its pages have arrived.
    Running,
    /// All of it is submitted.
    Reporting(LocalBoxFuture<'static, Result<WindowReport, DeviceError>>),
}

/// What the run waits for.
enum Next {
    Mail(Option<SubmitterMail>),
    Tokens(Result<Vec<u32>, DeviceError>),
    Report(Result<WindowReport, DeviceError>),
    Place(Option<Permit<RunEvent>>),
}

struct Run<'a, M> {
    model: &'a mut M,
    begin: &'a BeginDecode,
    plan: Rc<GpuPlan>,
    told: Told,
    links: &'a SubmitterLinks,
    core: RunCore,
    stage: Stage,
    widths: Widths,
    /// The piece under way, what is known of it and whether pipelines were compiled for it, and its place in
    /// the stream of events.
    piece: Option<(Submission, (Piece, bool), Permit<RunEvent>)>,
    /// Rows that wait for a free slot.
    waiting: Option<Asked<StreamRows>>,
    /// Something arrived since the pass was last continued.
    is_runnable: bool,
    starved_since_us: Option<u64>,
    starved_us: u64,
    reported_us: u64,
}

/// Runs a request to its end. `control` answers control mail and returns what it means for the run, which
/// stops at the next page or pauses at the end of a pass.
pub(super) async fn run_streamed<M: StreamedModel>(
    model: &mut M,
    plan: Rc<GpuPlan>,
    begin: &BeginDecode,
    told: Told,
    mailbox: &mut Mailbox<SubmitterMail>,
    links: &SubmitterLinks,
    mut control: impl FnMut(SubmitterMail) -> Heard,
) -> Result<RunOver, DeviceError> {
    links.gaps.begin_run(begin.asked_us);
    model.prepare_sampling(&begin.setup.sampling).await?;
    links.gaps.spend(GapCause::Compile);
    model.begin(&begin.setup)?;
    // Nothing may be submitted ahead of a pass: the next one waits for the same pages.
    let core = RunCore::new(&BeginDecode { windows_in_flight: 1, ..begin.clone() });
    let now_us = links.clock.now_us();
    let mut run = Run {
        model,
        begin,
        plan,
        told,
        links,
        core,
        stage: Stage::Idle,
        widths: Widths::new(),
        piece: None,
        waiting: None,
        is_runnable: false,
        starved_since_us: None,
        starved_us: 0,
        reported_us: now_us,
    };
    run.demand(Demand::Pages { from: run.model.arriving_page() });
    loop {
        run.go_on().await?;
        if run.is_over() {
            return Ok(run.over());
        }
        match run.next(mailbox).await {
            Next::Mail(None) => return Ok(run.over()),
            Next::Mail(Some(SubmitterMail::Stream(asked))) => run.receive(asked),
            Next::Mail(Some(SubmitterMail::Gather(asked))) => run.gather(asked).await?,
            Next::Mail(Some(mail)) => match control(mail) {
                Heard::Nothing => {}
                Heard::Pause => run.core.finish(),
                Heard::End => run.core.stop(),
            },
            Next::Tokens(tokens) => run.demand_rows(tokens?),
            Next::Report(report) => run.complete(report?),
            Next::Place(Some(permit)) => run.start(permit).await?,
            // The engine is gone, and with it every use of the run.
            Next::Place(None) => return Ok(run.over()),
        }
    }
}

impl<M: StreamedModel> Run<'_, M> {
    fn over(self) -> RunOver {
        RunOver { quarantined: self.widths.quarantined() }
    }

    fn is_over(&self) -> bool {
        match self.stage {
            Stage::Idle => self.core.is_over(),
            Stage::Reporting(_) => false,
            // A pass that breaks off has committed nothing.
            _ => self.core.is_stopped(),
        }
    }

    /// Asks the pager. There is always room: the pass waits for what it demands.
    fn demand(&self, demand: Demand) {
        // A reader that left could not read; the end of the run is on its way.
        if let Some(place) = self.told.demands.try_reserve() {
            place.send(demand);
        }
    }

    /// Asks for the embedding rows that the next pass needs.
    fn demand_rows(&mut self, tokens: Vec<u32>) {
        self.stage = Stage::Gathering;
        self.starved_since_us = Some(self.links.clock.now_us());
        self.demand(Demand::Rows(tokens));
    }

    /// What it waited for has arrived.
    fn fed(&mut self) {
        if let Some(since_us) = self.starved_since_us.take() {
            self.starved_us += self.links.clock.now_us().saturating_sub(since_us);
        }
    }

    /// Does what needs no waiting but for the device.
    async fn go_on(&mut self) -> Result<(), DeviceError> {
        loop {
            if matches!(self.stage, Stage::Running) && std::mem::take(&mut self.is_runnable) {
                if let Some(report) = self.model.continue_pass()? {
                    self.stage = Stage::Reporting(report.boxed_local());
                    self.starved_since_us = None;
                } else {
                    self.starved_since_us = Some(self.links.clock.now_us());
                    self.advance();
                }
            }
            let Some(asked) = self.waiting.take_if(|asked| {
                self.model.has_room(asked.request.rows.matrix, asked.request.rows.first_row)
            }) else {
                return Ok(());
            };
            let rows = &asked.request.rows;
            let uploaded = self.model.upload_matrix(rows.matrix, rows.first_row, &rows.bytes).await;
            asked.reply.send(uploaded.clone());
            uploaded?;
            self.is_runnable = true;
        }
    }

    /// Tells how far the pass is, when that was not told for a while and the engine has room.
    fn advance(&mut self) {
        let now_us = self.links.clock.now_us();
        let total = self.plan.stream.as_ref().map_or(0, |stream| stream.pages.len());
        if total == 0 || now_us.saturating_sub(self.reported_us) < PASS_REPORT_US {
            return;
        }
        if let Some(place) = self.told.events.try_reserve() {
            self.reported_us = now_us;
            // The page that arrives is the first one that is missing, or ahead of it by the ring's slots.
            let done = self.model.arriving_page() as u32;
            place.send(RunEvent::PassAdvanced { done, total: total as u32 });
        }
    }

    fn receive(&mut self, asked: Asked<StreamRows>) {
        if asked.request.run != self.begin.run {
            return asked.reply.send(Ok(()));
        }
        if !matches!(self.stage, Stage::Gathering) {
            self.fed();
        }
        // The pager sends the next rows only after these; were there others, their asker hears that they
        // are gone.
        self.waiting = Some(asked);
    }

    async fn gather(&mut self, asked: Asked<GatherRows>) -> Result<(), DeviceError> {
        if asked.request.run != self.begin.run || !matches!(self.stage, Stage::Gathering) {
            asked.reply.send(Ok(()));
            return Ok(());
        }
        self.fed();
        let uploaded = self.model.upload_gathered(&asked.request.bytes).await;
        asked.reply.send(uploaded.clone());
        uploaded?;
        self.start_pass()
    }

    /// Begins the next piece.
    async fn start(&mut self, permit: Permit<RunEvent>) -> Result<(), DeviceError> {
        let plan = self.links.plan.get();
        let Some(piece) = self.core.next_submission(1) else { return Ok(()) };
        self.links.gaps.spend(GapCause::Consumer);
        let (mut known, is_new) = match &piece {
            Submission::Prompt { .. } => (piece_of(self.begin, PieceKind::Prompt, Width::Off, 0), false),
            // A pass takes longer than all pipelines of a width.
            Submission::Window { steps } => {
                // The plan may still be that of the request before.
                let planned = self.begin.width.limit(plan.width);
                let (width, is_new) = self.widths.whole(self.model, planned).await?;
                (piece_of(self.begin, PieceKind::Window, width, *steps), is_new)
            }
        };
        known.expect(&plan);
        known.submitted_us = self.links.clock.now_us();
        self.links.gaps.spend(GapCause::Compile);
        known.gap = self.links.gaps.take(false);
        let width = known.width;
        self.starved_us = 0;
        let gathers = self.plan.stream.as_ref().is_some_and(|stream| stream.gathers.is_some());
        let tokens = match &piece {
            Submission::Prompt { range, .. } => Some(self.begin.tokens[range.clone()].to_vec()),
            Submission::Window { .. } => None,
        };
        self.piece = Some((piece, (known, is_new), permit));
        match tokens {
            _ if !gathers => self.start_pass()?,
            Some(tokens) => self.demand_rows(tokens),
            None => self.stage = Stage::Drafting(self.model.draft(width)?.boxed_local()),
        }
        Ok(())
    }

    fn start_pass(&mut self) -> Result<(), DeviceError> {
        let Some((piece, (known, _), _)) = &self.piece else { return Ok(()) };
        self.model.start_pass(match piece {
            Submission::Prompt { base, range, choose } => {
                PassWork::Prompt { base: *base, tokens: &self.begin.tokens[range.clone()], choose: *choose }
            }
            Submission::Window { .. } => PassWork::Step(known.width),
        })?;
        self.stage = Stage::Running;
        self.is_runnable = true;
        Ok(())
    }

    fn complete(&mut self, report: WindowReport) {
        self.stage = Stage::Idle;
        let Some((_, (mut piece, is_new), permit)) = self.piece.take() else { return };
        piece.began_us = piece.submitted_us;
        piece.completed_us = self.links.clock.now_us();
        piece.starved_us = Some(self.starved_us);
        self.links.gaps.restart();
        if let Some(done) = self.core.complete(report, piece.elapsed_us()) {
            tell(done, piece, self.links, (is_new, permit));
        }
    }

    async fn next(&mut self, mailbox: &mut Mailbox<SubmitterMail>) -> Next {
        let wants_place = matches!(self.stage, Stage::Idle) && self.core.wants_submission();
        let (stage, events) = (&mut self.stage, &self.told.events);
        let progress = async {
            match stage {
                Stage::Drafting(tokens) => Next::Tokens(tokens.await),
                Stage::Reporting(report) => Next::Report(report.await),
                Stage::Idle if wants_place => Next::Place(events.reserve().await.ok()),
                _ => std::future::pending().await,
            }
        };
        let mail = mailbox.next();
        pin_mut!(mail, progress);
        match select(mail, progress).await {
            Either::Left((mail, _)) => Next::Mail(mail),
            Either::Right((next, _)) => next,
        }
    }
}
