//! Passes: a prompt batch or a step, recorded and submitted as far as its weights are there, and continued
//! when more have arrived. Where all weights stay that is at once; a window is several steps in one submission.
//! Nothing is read back inside a pass.

use std::collections::VecDeque;

use fanlight_messages::device::PassWork;
use fanlight_messages::draft::Width;
use fanlight_messages::plan::BufferOwner;
use fanlight_messages::program::MatrixId;
use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::encode::{Batch, Recorder, Rows};
use super::lower::{Lowered, MultiplyPage, Product};
use super::ring::Ring;
use super::step::Search;
use super::{PendingReport, Runner};
use crate::device::GpuError;
use crate::kernels::accept;

/// Passes under way that share a report.
#[derive(Debug)]
pub(super) struct Submission {
    passes: VecDeque<Pass>,
    /// Tokens that they may commit, when they are steps.
    growth: Option<u32>,
    dispatches: u32,
}

/// A pass that is recorded up to some place.
#[derive(Debug)]
struct Pass {
    batch: Batch,
    /// What comes before the forward pass.
    start: Option<Start>,
    /// Next op of the body, and next page of it.
    op: usize,
    page: usize,
    /// What comes after it.
    commit: Option<(accept::Form, u32)>,
}

#[derive(Debug, Clone, Copy)]
enum Start {
    Copies,
    Draft(u32, Search),
}

/// Tokens that are being read back.
type PendingTokens = LocalBoxFuture<'static, Result<Vec<u32>, GpuError>>;

impl Runner {
    /// Uploads the rows of the embedding table that the next pass needs, in file format and in its order.
    pub(super) async fn upload_embeddings(&mut self, bytes: &[u8]) -> Result<(), GpuError> {
        self.device.health()?;
        let table = self.gathered_table()?;
        let target = super::upload_target!(self);
        self.uploads.gathered(target, table, bytes).await
    }

    fn gathered_table(&self) -> Result<MatrixId, GpuError> {
        let table = self.plan.stream.as_ref().and_then(|stream| stream.gathers);
        table.ok_or_else(|| GpuError::MissingBuffer { owner: "gathered rows".into() })
    }

    /// Drafts the next step and reads its tokens back, for a plan whose embedding rows are gathered.
    pub(super) fn submit_draft(&mut self, width: Width) -> Result<PendingTokens, GpuError> {
        self.device.health()?;
        let (slot, readback) = self.free_readback()?;
        let search = self.search();
        let (mut encoder, ..) = self.record("draft", |runner, recorder| match width {
            Width::Off => Ok(()),
            Width::Nodes(nodes) => runner.step.draft(recorder, nodes, search),
        })?;
        let rows = width.rows() as usize;
        let tokens = self.buffers.get(BufferOwner::Tokens)?;
        encoder.copy_buffer_to_buffer(tokens, 0, readback, 0, Some(4 * rows as u64));
        let submission = self.device.submit(encoder.finish());
        slot.set(true);
        let words = self.device.read(readback, submission);
        Ok(async move {
            let words = words.await;
            slot.set(false);
            words.map(|words| words.into_iter().take(rows).collect())
        }
        .boxed_local())
    }

    fn search(&self) -> Search {
        Search { first: self.search_first, last: self.committed.get().min(self.plan.cache_rows - 1) }
    }

    /// Begins a pass; [`submit_ready`](Self::submit_ready) runs it.
    pub(super) fn begin_pass(&mut self, work: PassWork<'_>) -> Result<(), GpuError> {
        self.under_way = Some(match work {
            PassWork::Prompt { base, tokens, choose } => {
                let batch = self.write_prompt(base, tokens)?;
                let commit = choose.then_some((accept::Form::Prompt, 1));
                let pass = Pass { batch, start: None, op: 0, page: 0, commit };
                Submission { passes: [pass].into(), growth: None, dispatches: 0 }
            }
            PassWork::Step(width) => self.steps(1, width)?,
        });
        Ok(())
    }

    /// Steps of a prepared width, one after the other.
    fn steps(&mut self, steps: u32, width: Width) -> Result<Submission, GpuError> {
        self.check_allowed(width)?;
        let passes = (0..steps).map(|_| self.step_pass(width)).collect();
        Ok(Submission { passes, growth: Some(steps * width.tokens_max()), dispatches: 0 })
    }

    fn step_pass(&mut self, width: Width) -> Pass {
        let (committed, search, growth) = (self.committed.get(), self.search(), width.tokens_max());
        self.committed.submit(growth);
        let gathers = self.gathered_table().is_ok();
        let copies = self.is_unflushed && width == Width::Off;
        self.is_unflushed = width != Width::Off;
        let (batch, start, form) = match width {
            Width::Off => {
                let batch = self.batch(1, Product::Lane(1), Rows::Plain, committed + 1);
                (batch, copies.then_some(Start::Copies), accept::Form::Plain)
            }
            Width::Nodes(nodes) => {
                let batch = self.batch(nodes, Product::Lane(nodes), Rows::Tree, committed + growth);
                // Where rows are gathered the draft came first, to tell which.
                let start = (!gathers).then_some(Start::Draft(nodes, search));
                (batch, start, accept::Form::Tree)
            }
        };
        let commit = Some((form, width.rows()));
        Pass { batch, start, op: 0, page: 0, commit }
    }

    /// Submits what can run of the pass: `None` when it waits for a page, else its report.
    pub(super) fn submit_ready(&mut self) -> Result<Option<PendingReport>, GpuError> {
        self.continue_by(usize::MAX)
    }

    /// Submits a whole pass in about `parts` submissions, split between ops, so that none keeps the device
    /// for long.
    pub(super) fn submit_pass(&mut self, work: PassWork<'_>, parts: u32) -> Result<PendingReport, GpuError> {
        self.check_resident()?;
        self.begin_pass(work)?;
        self.submit_all(parts)
    }

    /// Submits a window of decode steps; resolves when its control block and tokens have been read back.
    /// Submitted when called, so that the next window can follow before this one is read. The width must have
    /// been prepared. A single step may be split into `parts`.
    pub(super) fn submit_window(
        &mut self,
        steps: u32,
        width: Width,
        parts: u32,
    ) -> Result<PendingReport, GpuError> {
        self.check_resident()?;
        self.under_way = Some(self.steps(steps, width)?);
        self.submit_all(if steps == 1 { parts } else { 1 })
    }

    fn submit_all(&mut self, parts: u32) -> Result<PendingReport, GpuError> {
        let ops = self.body.len().div_ceil(parts.max(1) as usize).max(1);
        loop {
            if let Some(report) = self.continue_by(ops)? {
                return Ok(report);
            }
        }
    }

    /// Submits what can run by `ops_max` ops of a pass's body at most; the report when that was the rest.
    fn continue_by(&mut self, ops_max: usize) -> Result<Option<PendingReport>, GpuError> {
        self.device.health()?;
        let Some(mut submission) = self.under_way.take() else {
            return Err(GpuError::MissingBuffer { owner: "a pass that could go on".into() });
        };
        let mut ring = std::mem::take(&mut self.ring);
        let recorded = self.record("passes", |runner, recorder| {
            while let Some(pass) = submission.passes.front_mut() {
                let end = pass.op.saturating_add(ops_max);
                if !runner.record_pass(recorder, pass, &mut ring, end)? {
                    return Ok(false);
                }
                ring.end_pass();
                submission.passes.pop_front();
            }
            Ok(true)
        });
        self.ring = ring;
        let (encoder, is_whole, dispatches) = recorded?;
        submission.dispatches += dispatches;
        if is_whole {
            return self.submit_recorded(encoder, submission.dispatches, submission.growth).map(Some);
        }
        if dispatches > 0 {
            self.device.submit(encoder.finish());
        }
        self.under_way = Some(submission);
        Ok(None)
    }

    /// Records as far as the weights are there and to op `end` of the body; true at the end of the pass.
    fn record_pass(
        &self,
        recorder: &mut Recorder,
        pass: &mut Pass,
        ring: &mut Ring,
        end: usize,
    ) -> Result<bool, GpuError> {
        match pass.start.take() {
            Some(Start::Copies) => self.copy_accepted(recorder)?,
            Some(Start::Draft(nodes, search)) => self.step.draft(recorder, nodes, search)?,
            None => {}
        }
        while let Some(op) = self.body.get(pass.op) {
            if pass.op == end {
                return Ok(false);
            }
            match op {
                Lowered::Multiply(pages) => {
                    if !pass.multiply(recorder, ring, pages, pass.batch)? {
                        return Ok(false);
                    }
                }
                op => recorder.op(op, pass.batch)?,
            }
            pass.op += 1;
        }
        let Some((form, rows)) = pass.commit else { return Ok(true) };
        let (pages, batch) = match form {
            accept::Form::Prompt => (&self.head, self.batch(1, Product::Lane(1), Rows::Plain, 1)),
            accept::Form::Plain => (&self.head, pass.batch),
            accept::Form::Tree => (&self.head_all, pass.batch),
        };
        if !pass.multiply(recorder, ring, pages, batch)? {
            return Ok(false);
        }
        self.step.commit(recorder, form, rows)?;
        Ok(true)
    }
}

impl Pass {
    /// Multiplies with the pages that are there; true when that was the last one of the matrix.
    fn multiply(
        &mut self,
        recorder: &mut Recorder,
        ring: &mut Ring,
        pages: &[MultiplyPage],
        batch: Batch,
    ) -> Result<bool, GpuError> {
        while let Some(page) = pages.get(self.page) {
            if page.streamed.is_some_and(|page| !ring.take(page)) {
                return Ok(false);
            }
            recorder.multiply(std::slice::from_ref(page), batch.product, batch)?;
            self.page += 1;
        }
        self.page = 0;
        Ok(true)
    }
}
