//! Passes whose weights stream: recorded and submitted as far as the weights are there, continued when more
//! have arrived. Nothing is read back inside a pass.

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
use crate::shader::Form;

/// A pass under way.
#[derive(Debug)]
pub(super) struct Pass {
    batch: Batch,
    /// What comes before the forward pass.
    start: Option<Start>,
    /// Next op of the body, and next page of it.
    op: usize,
    page: usize,
    /// What comes after it.
    commit: Option<(Form, u32)>,
    /// Tokens that it may commit, when it is a step.
    growth: Option<u32>,
    dispatches: u32,
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
        table.ok_or(GpuError::Bug("rows are gathered for a model that has them all"))
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
        let pass = match work {
            PassWork::Prompt { base, tokens, choose } => Pass {
                batch: self.write_prompt(base, tokens)?,
                start: None,
                op: 0,
                page: 0,
                commit: choose.then_some((Form::Prompt, 1)),
                growth: None,
                dispatches: 0,
            },
            PassWork::Step(width) => {
                self.check_allowed(width)?;
                self.step_pass(width)
            }
        };
        self.pass = Some(pass);
        Ok(())
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
                (batch, copies.then_some(Start::Copies), Form::Plain)
            }
            Width::Nodes(nodes) => {
                let batch = self.batch(nodes, Product::Lane(nodes), Rows::Tree, committed + growth);
                // Where rows are gathered the draft came first, to tell which.
                let start = (!gathers).then_some(Start::Draft(nodes, search));
                (batch, start, Form::Tree)
            }
        };
        let commit = Some((form, width.rows()));
        Pass { batch, start, op: 0, page: 0, commit, growth: Some(growth), dispatches: 0 }
    }

    /// Submits what can run of the pass: `None` when it waits for a page, else its report.
    pub(super) fn submit_ready(&mut self) -> Result<Option<PendingReport>, GpuError> {
        self.continue_by(usize::MAX)
    }

    /// Submits a whole pass in about so many submissions, split between ops, so that none keeps the device
    /// for long.
    pub(super) fn submit_pass(&mut self, work: PassWork<'_>, parts: u32) -> Result<PendingReport, GpuError> {
        self.check_resident()?;
        self.begin_pass(work)?;
        let ops = self.body.len().div_ceil(parts.max(1) as usize).max(1);
        loop {
            if let Some(report) = self.continue_by(ops)? {
                return Ok(report);
            }
        }
    }

    /// The same by `ops_max` ops of the body at most.
    fn continue_by(&mut self, ops_max: usize) -> Result<Option<PendingReport>, GpuError> {
        self.device.health()?;
        let Some(mut pass) = self.pass.take() else {
            return Err(GpuError::Bug("a pass goes on that was not begun"));
        };
        let mut ring = std::mem::take(&mut self.ring);
        let end = pass.op.saturating_add(ops_max);
        let recorded = self.record("part of a pass", |runner, recorder| {
            runner.record_pass(recorder, &mut pass, &mut ring, end)
        });
        self.ring = ring;
        let (encoder, is_whole, dispatches) = recorded?;
        pass.dispatches += dispatches;
        if is_whole {
            self.ring.end_pass();
            return self.submit_recorded(encoder, pass.dispatches, pass.growth).map(Some);
        }
        if dispatches > 0 {
            self.device.submit(encoder.finish());
        }
        self.pass = Some(pass);
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
            Form::Prompt => (&self.head, self.batch(1, Product::Lane(1), Rows::Plain, 1)),
            Form::Plain => (&self.head, pass.batch),
            Form::Tree => (&self.head_all, pass.batch),
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
