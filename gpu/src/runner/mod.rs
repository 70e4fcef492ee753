//! A program on a device: its buffers, its pipelines, and the submissions that run it.

mod bound;
mod buffers;
mod check;
mod choice;
mod decode;
mod encode;
mod lower;
mod measure;
mod model;
mod params;
mod pass;
mod prepare;
mod report;
mod ring;
mod rope;
mod step;
mod upload;

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use fanlight_messages::control::{BLOCK_WORDS, CONTROL_BYTES, ControlBlock, END_IDS_MAX, END_IDS_WORD};
use fanlight_messages::device::{Quarantined, RequestSetup, WindowReport};
use fanlight_messages::draft::MEMORY_TOKENS;
use fanlight_messages::limits::READBACK_SLOTS;
use fanlight_messages::plan::{BufferOwner, GpuPlan, PageRange};
use fanlight_messages::program::{MatrixId, Op, Program, RopeId, ValueId, VectorId};

use futures::FutureExt;
use futures::future::LocalBoxFuture;

pub use measure::{DecodeTime, PipelineTime, StepTime};

use bound::CommittedBound;
use buffers::Buffers;
use check::Checks;
use encode::{Batch, Recorder, Rows};
use lower::{Lowered, Lowering, MultiplyPage, Product};
use params::ParamWriter;
use pass::Pass;
use report::Reported;
use ring::Ring;
use step::StepKernels;
use upload::Uploads;

use crate::device::{Device, GpuError};
use crate::kernels::Kernel;
use crate::pipelines::Pipelines;
use crate::selftest::Verdicts;

/// What uploads need, borrowed from a runner field by field.
macro_rules! upload_target {
    ($runner:ident) => {
        $crate::runner::upload::UploadTarget {
            device: &$runner.device,
            program: &$runner.program,
            plan: &$runner.plan,
            buffers: &$runner.buffers,
            pipelines: &$runner.pipelines,
        }
    };
}
use upload_target;

/// A submission whose report has not been read back yet.
type PendingReport = LocalBoxFuture<'static, Result<WindowReport, GpuError>>;

/// A model on a device.
#[derive(Debug)]
pub struct Runner {
    device: Device,
    program: Rc<Program>,
    plan: Rc<GpuPlan>,
    buffers: Buffers,
    pipelines: Rc<Pipelines>,
    resolved: HashMap<Kernel, Rc<wgpu::ComputePipeline>>,
    body: Vec<Lowered>,
    /// The head on the last live row, and on every row.
    head: Vec<MultiplyPage>,
    head_all: Vec<MultiplyPage>,
    logits: ValueId,
    step: StepKernels,
    uploads: Uploads,
    checks: Checks,
    ring: Ring,
    /// The pass under way, where weights stream.
    pass: Option<Pass>,
    committed: Rc<CommittedBound>,
    /// First index of the history that drafts are made from.
    search_first: u32,
    /// Whether accepted rows may still wait to be copied to the cache.
    is_unflushed: bool,
    reported: Rc<Reported>,
    slots: Vec<Rc<Cell<bool>>>,
}

impl Runner {
    /// Creates every buffer of the plan, writes the position tables and lowers the program.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`] names the buffer that did not fit; nothing stays allocated.
    pub(crate) async fn create(
        device: &Device,
        verdicts: Rc<Verdicts>,
        program: Rc<Program>,
        plan: Rc<GpuPlan>,
    ) -> Result<Self, GpuError> {
        let buffers = Buffers::create(device, &plan).await?;
        let pipelines = Rc::new(Pipelines::new(device));
        for (index, spec) in (0u32..).zip(&program.ropes) {
            let buffer = buffers.get(BufferOwner::Rope(RopeId(index)))?;
            let row_bytes = 8 * u64::from(spec.row_len());
            for first in (0..plan.cache_rows).step_by(ROPE_ROWS as usize) {
                let rows = ROPE_ROWS.min(plan.cache_rows - first);
                let table = rope::table(spec, plan.request.context_len, first, rows);
                device.queue().write_buffer(
                    buffer,
                    u64::from(first) * row_bytes,
                    bytemuck::cast_slice(&table),
                );
            }
        }
        let params = ParamWriter::new(&buffers)?;
        let mut lowering = Lowering {
            device,
            program: &program,
            plan: &plan,
            buffers: &buffers,
            pipelines: &pipelines,
            params,
        };
        let scope = device.raw().push_error_scope(wgpu::ErrorFilter::Validation);
        let mut body = Vec::with_capacity(program.body.len());
        for op in &program.body {
            body.push(lowering.op(op)?);
        }
        let (head, head_all) = (lowering.head(true)?, lowering.head(false)?);
        let Op::Multiply { output: logits, .. } = program.head else {
            return Err(GpuError::Bug("the head of the program is no matrix product"));
        };
        let step = StepKernels::bind(&mut lowering, logits)?;
        let uploads = Uploads::new(lowering.params.reserve()?);
        lowering.params.finish()?;
        if let Ok(index) = buffers.get(BufferOwner::GatheredIndex) {
            let rows: Vec<u32> = (0..plan.batch_rows).collect();
            device.queue().write_buffer(index, 0, bytemuck::cast_slice(&rows));
        }
        if let Some(error) = scope.pop().await {
            return Err(GpuError::Validation { reason: error.to_string() });
        }
        step::write_reliabilities(device, &buffers)?;
        Ok(Self {
            device: device.clone(),
            resolved: HashMap::new(),
            committed: Rc::default(),
            search_first: MEMORY_TOKENS,
            is_unflushed: false,
            reported: Rc::default(),
            slots: (0..READBACK_SLOTS).map(|_| Rc::default()).collect(),
            ring: Ring::new(&plan),
            pass: None,
            program,
            plan,
            buffers,
            pipelines,
            body,
            head,
            head_all,
            logits,
            step,
            uploads,
            checks: Checks::new(verdicts),
        })
    }

    /// The device it runs on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The plan it obeys.
    pub fn plan(&self) -> &GpuPlan {
        &self.plan
    }

    /// Pipelines compiled so far.
    pub fn pipeline_count(&self) -> usize {
        self.pipelines.count()
    }

    /// Uploads whole rows in file format, at most the landing buffer less four bytes. Awaiting it is the
    /// back-pressure: at most two uploads are in flight. Rows of a page that streams must be those that come
    /// next, and the ring must have room for them.
    async fn upload_rows(&mut self, matrix: MatrixId, first_row: u64, bytes: &[u8]) -> Result<(), GpuError> {
        self.device.health()?;
        let spec = &self.program.matrices[matrix.index()];
        let rows =
            spec.tensor_type.row_bytes(u64::from(spec.columns)).map_or(0, |row| bytes.len() as u64 / row);
        let holds = |page: &PageRange| (page.first_row..page.first_row + page.rows).contains(&first_row);
        let mut pages = self.plan.pages.iter().filter(|page| page.matrix == matrix);
        let streams = pages.any(|page| page.slot.is_some() && holds(page));
        let out_of_order = || GpuError::Upload {
            matrix: spec.name.clone(),
            wanted: "rows in the order of a pass, and a free slot for them".into(),
        };
        if streams && !self.ring.has_room(matrix, first_row) {
            return Err(out_of_order());
        }
        self.uploads.rows(upload_target!(self), matrix, first_row, bytes).await?;
        if streams && !self.ring.arrive(matrix, first_row, rows) {
            return Err(out_of_order());
        }
        Ok(())
    }

    /// Writes elements of a constant vector.
    fn write_vector(
        &mut self,
        vector: VectorId,
        element_offset: u32,
        values: &[f32],
    ) -> Result<(), GpuError> {
        let spec = &self.program.vectors[vector.index()];
        if element_offset as usize + values.len() > spec.len() as usize {
            return Err(GpuError::Upload {
                matrix: spec.name.clone(),
                wanted: format!("{} elements, got {} at {element_offset}", spec.len(), values.len()),
            });
        }
        let start = self.plan.vector_offsets[vector.index()] + element_offset;
        let buffer = self.buffers.get(BufferOwner::Vectors)?;
        self.device.queue().write_buffer(buffer, u64::from(start) * 4, bytemuck::cast_slice(values));
        Ok(())
    }

    /// Compiles what prompts and plain decoding need, waits for the uploads, and compares the two: what
    /// prompts must not use is returned. `progress` hears (done, total).
    async fn compile_always(
        &mut self,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Option<Quarantined>, GpuError> {
        let mut kernels = StepKernels::ALWAYS.to_vec();
        kernels.extend(self.step.finishing());
        let one = self.batch(1, Product::Lane(1), Rows::Plain, 1);
        let batch_tokens = self.plan.request.batch_tokens;
        let prompts = [1, 2, batch_tokens].map(|tokens| tokens.min(batch_tokens));
        let prompts =
            prompts.map(|tokens| self.batch(tokens, Product::for_prompt(tokens), Rows::Prompt, tokens));
        for batch in [one].into_iter().chain(prompts) {
            for op in &self.body {
                encode::visit(op, batch, &mut |kernel, _, _| kernels.push(kernel));
            }
        }
        for page in &self.head {
            kernels.push(one.product.kernel(page, 1, one.packed_dot).0);
        }
        self.resolve(kernels, &mut progress).await?;
        let quarantined = self.check_prompts().await?;
        self.device.health()?;
        Ok(quarantined)
    }

    fn batch(&self, tokens: u32, product: Product, rows: Rows, positions_max: u32) -> Batch {
        Batch {
            tokens,
            product,
            rows,
            positions_max: positions_max.min(self.plan.cache_rows),
            kv_format: self.plan.request.kv_format,
            packed_dot: self.device.facts().has_packed_dot,
            partial_rows: self.plan.partial_rows,
        }
    }

    /// Starts a request: end ids, limits, memory, an empty ring. The cache keeps its rows.
    fn start_request(&mut self, setup: &RequestSetup) -> Result<(), GpuError> {
        if setup.end_ids.len() > END_IDS_MAX as usize {
            return Err(GpuError::BatchTooLarge { wanted: setup.end_ids.len(), limit: END_IDS_MAX as usize });
        }
        // A pass that broke off left rows in the cache that nothing counts.
        self.pass = None;
        self.ring.restart();
        self.flush()?;
        let mut words = vec![0u32; (CONTROL_BYTES / 4) as usize];
        let control = ControlBlock {
            context: setup.context_len.min(self.plan.request.context_len),
            tokens_left: setup.token_limit,
            hash: setup.hash,
            ..ControlBlock::default()
        };
        words[..BLOCK_WORDS].copy_from_slice(&control.to_words());
        let ids = &mut words[END_IDS_WORD as usize..][..END_IDS_MAX as usize];
        ids.fill(u32::MAX);
        ids[..setup.end_ids.len()].copy_from_slice(&setup.end_ids);
        let queue = self.device.queue();
        queue.write_buffer(self.buffers.get(BufferOwner::Control)?, 0, bytemuck::cast_slice(&words));
        queue.write_buffer(self.buffers.get(BufferOwner::Faults)?, 0, &[0; 4]);
        self.search_first = step::write_memory(&self.device, &self.buffers, &setup.memory)?;
        self.step.configure(&self.device, &self.buffers, setup, self.search_first)?;
        self.reported.reset();
        self.committed.reset(0);
        Ok(())
    }

    fn write_prompt(&mut self, base: u32, tokens: &[u32]) -> Result<Batch, GpuError> {
        let is_alone = self.checks.forbid_prompts();
        let limit = if is_alone { 1 } else { self.plan.request.batch_tokens as usize };
        if tokens.is_empty() || tokens.len() > limit {
            return Err(GpuError::BatchTooLarge { wanted: tokens.len(), limit });
        }
        self.flush()?;
        let live = tokens.len() as u32;
        let queue = self.device.queue();
        queue.write_buffer(self.buffers.get(BufferOwner::Tokens)?, 0, bytemuck::cast_slice(tokens));
        queue.write_buffer(self.buffers.get(BufferOwner::Control)?, 0, bytemuck::cast_slice(&[base, live]));
        let history = self.buffers.get(BufferOwner::History)?;
        queue.write_buffer(history, 4 * u64::from(MEMORY_TOKENS + base), bytemuck::cast_slice(tokens));
        self.committed.reset(base + live);
        let rows = if is_alone { Rows::Plain } else { Rows::Prompt };
        Ok(self.batch(live, Product::for_prompt(live), rows, base + live))
    }

    /// Logits of every row of a prompt batch: `[tokens, vocabulary]`, before bias and penalties. For measuring models, not for
    /// decoding.
    pub async fn score(&mut self, base: u32, tokens: &[u32]) -> Result<Vec<f32>, GpuError> {
        let limit = self.plan.request.logits_rows as usize;
        if tokens.len() > limit {
            return Err(GpuError::BatchTooLarge { wanted: tokens.len(), limit });
        }
        let batch = self.write_prompt(base, tokens)?;
        let kernel = |page| batch.product.kernel(page, batch.tokens, batch.packed_dot).0;
        let kernels: Vec<_> = self.head_all.iter().map(kernel).collect();
        self.resolve(kernels, &mut |_, _| ()).await?;
        let report = self.submit(None, |runner, recorder| {
            runner.forward(recorder, batch)?;
            recorder.multiply(&runner.head_all, batch.product, batch)?;
            runner.step.finish(recorder, batch.tokens)
        })?;
        report.await?;
        let row = self.program.values[self.logits.index()].len as usize;
        let words = self.read_value(self.logits, tokens.len() * row).await?;
        Ok(words.into_iter().map(f32::from_bits).collect())
    }

    /// The residual row of the last token after every op that adds to it, for comparing layers with a
    /// reference.
    pub async fn trace_residual(&mut self, base: u32, tokens: &[u32]) -> Result<Vec<Vec<f32>>, GpuError> {
        let batch = self.write_prompt(base, tokens)?;
        let mut rows = Vec::new();
        for (index, op) in self.program.clone().body.iter().enumerate() {
            self.submit(None, |runner, recorder| recorder.op(&runner.body[index], batch))?.await?;
            if let Op::Normalize { residual, .. } = op {
                let len = self.program.values[residual.index()].len as usize;
                let words = self.read_value(*residual, tokens.len() * len).await?;
                rows.push(words[words.len() - len..].iter().map(|w| f32::from_bits(*w)).collect());
            }
        }
        Ok(rows)
    }

    /// The first `len` words of a value, for tests and measurements.
    pub async fn read_value(&self, value: ValueId, len: usize) -> Result<Vec<u32>, GpuError> {
        self.device.read_buffer(self.buffers.get(BufferOwner::Value(value))?, 4 * len as u64).await
    }

    /// Every op of the forward pass but the head.
    fn forward(&self, recorder: &mut Recorder, batch: Batch) -> Result<(), GpuError> {
        self.check_resident()?;
        self.body.iter().try_for_each(|op| recorder.op(op, batch))
    }

    /// Records one compute pass; gives it with what `record` told and the number of its dispatches.
    fn record<T>(
        &self,
        label: &str,
        record: impl FnOnce(&Self, &mut Recorder) -> Result<T, GpuError>,
    ) -> Result<(wgpu::CommandEncoder, T, u32), GpuError> {
        let descriptor = wgpu::CommandEncoderDescriptor { label: Some(label) };
        let mut encoder = self.device.raw().create_command_encoder(&descriptor);
        let mut recorder = Recorder {
            pass: encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()),
            pipelines: &self.resolved,
            dispatches: 0,
        };
        let recorded = record(self, &mut recorder);
        let dispatches = recorder.dispatches;
        drop(recorder);
        recorded.map(|told| (encoder, told, dispatches))
    }

    /// Records and submits; `growth` is what a window may commit at most.
    fn submit(
        &self,
        growth: Option<u32>,
        record: impl FnOnce(&Self, &mut Recorder) -> Result<(), GpuError>,
    ) -> Result<PendingReport, GpuError> {
        self.device.health()?;
        let (encoder, (), dispatches) = self.record("window", record)?;
        self.submit_recorded(encoder, dispatches, growth)
    }

    /// A readback slot that nothing is read from.
    fn free_readback(&self) -> Result<(Rc<Cell<bool>>, &wgpu::Buffer), GpuError> {
        let (index, slot) = (0u32..)
            .zip(&self.slots)
            .find(|(_, slot)| !slot.get())
            .ok_or(GpuError::NoReadbackSlot { slots: self.slots.len() })?;
        Ok((slot.clone(), self.buffers.get(BufferOwner::Readback(index))?))
    }

    /// Submits work, and behind it the copy of the control block that its report is read from.
    fn submit_recorded(
        &self,
        mut encoder: wgpu::CommandEncoder,
        dispatches: u32,
        growth: Option<u32>,
    ) -> Result<PendingReport, GpuError> {
        let (slot, readback) = self.free_readback()?;
        let control = self.buffers.get(BufferOwner::Control)?;
        encoder.copy_buffer_to_buffer(control, 0, readback, 0, Some(CONTROL_BYTES));
        let submission = self.device.submit(encoder.finish());
        slot.set(true);
        let (reported, committed) = (self.reported.clone(), self.committed.clone());
        let words = self.device.read(readback, submission);
        Ok(async move {
            let words = words.await;
            slot.set(false);
            let report = reported.take(&words?, dispatches)?;
            if let Some(growth) = growth {
                committed.confirm(report.control.committed, growth);
            }
            Ok(report)
        }
        .boxed_local())
    }
}

/// Rows of a position table written at once.
const ROPE_ROWS: u32 = 1024;
