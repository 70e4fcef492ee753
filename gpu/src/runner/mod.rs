//! A program on a device: its buffers, its pipelines, and the submissions that run it.

mod buffers;
mod encode;
mod lower;
mod measure;
mod params;
pub(crate) mod pipelines;
mod rope;
mod upload;

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use fanlight_messages::control::{
    CONTROL_BYTES, ControlBlock, END_IDS_MAX, END_IDS_WORD, RING_LEN, RING_WORD,
};
use fanlight_messages::device::{RequestSetup, WindowReport};
use fanlight_messages::limits::READBACK_SLOTS;
use fanlight_messages::plan::{BufferOwner, GpuPlan};
use fanlight_messages::program::{MatrixId, Op, Program, RopeId, ValueId, VectorId};

use futures::FutureExt;
use futures::future::LocalBoxFuture;

pub use measure::{DecodeTime, StepTime};

use buffers::Buffers;
use encode::{Batch, Recorder};
use lower::{Bind, Lowered, Lowering, MultiplyPage, Product};
use params::ParamWriter;
use pipelines::{Bound, Pipeline, Pipelines};
use upload::{UploadTarget, Uploads};

use crate::device::{Device, GpuError};
use crate::kernels::{Kernel, choose};

/// A submission whose report has not been read back yet.
pub type PendingReport = LocalBoxFuture<'static, Result<WindowReport, GpuError>>;

/// A model on a device.
#[derive(Debug)]
pub struct Runner {
    device: Device,
    program: Rc<Program>,
    plan: Rc<GpuPlan>,
    buffers: Buffers,
    pipelines: Pipelines,
    resolved: HashMap<Kernel, Rc<Pipeline>>,
    body: Vec<Lowered>,
    /// The head on the last live row, and on every row.
    head: Vec<MultiplyPage>,
    head_all: Vec<MultiplyPage>,
    logits: ValueId,
    choose: Bind,
    choose_record: u64,
    accept: Bind,
    uploads: Uploads,
    /// Positions that submitted work may have filled.
    positions_bound: u32,
    /// Ring head of the last report that was read.
    reported: Rc<Cell<u32>>,
    slots: Vec<Rc<Cell<bool>>>,
}

impl Runner {
    /// Creates every buffer of the plan, writes the position tables and lowers the program.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`] names the buffer that did not fit; nothing stays allocated.
    pub async fn create(device: &Device, program: Rc<Program>, plan: Rc<GpuPlan>) -> Result<Self, GpuError> {
        let buffers = Buffers::create(device, &plan).await?;
        let pipelines = Pipelines::new(device);
        for (index, spec) in (0u32..).zip(&program.ropes) {
            let buffer = buffers.get(BufferOwner::Rope(RopeId(index)))?;
            let row_bytes = 8 * spec.inverse_frequencies.len() as u64;
            for first in (0..plan.cache_rows).step_by(ROPE_ROWS as usize) {
                let rows = ROPE_ROWS.min(plan.cache_rows - first);
                let table = rope::table(spec, first, rows);
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
            body.push(lowering.op(op).await?);
        }
        let (head, head_all) = (lowering.head(true).await?, lowering.head(false).await?);
        let Op::Multiply { output: logits, .. } = program.head else {
            return Err(GpuError::MissingBuffer { owner: "logits".into() });
        };
        let record = choose::Params { len: program.vocabulary_len, hash: 0 };
        let choose_record = lowering.params.peek();
        let bound = vec![
            Bound::whole(0, buffers.get(BufferOwner::Value(logits))?),
            Bound::whole(1, buffers.get(BufferOwner::ChoicePartials)?),
        ];
        let choose = lowering.bind(Kernel::Choose, record, bound, None).await?;
        let accept = bind_accept(device, &buffers, &pipelines).await?;
        let uploads = Uploads::new(lowering.params.peek());
        if let Some(error) = scope.pop().await {
            return Err(GpuError::Validation { reason: error.to_string() });
        }
        Ok(Self {
            device: device.clone(),
            resolved: HashMap::new(),
            positions_bound: 0,
            reported: Rc::default(),
            slots: (0..READBACK_SLOTS).map(|_| Rc::default()).collect(),
            program,
            plan,
            buffers,
            pipelines,
            body,
            head,
            head_all,
            logits,
            choose,
            choose_record,
            accept,
            uploads,
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
    /// back-pressure: at most two uploads are in flight.
    pub async fn upload_matrix(
        &mut self,
        matrix: MatrixId,
        first_row: u64,
        bytes: &[u8],
    ) -> Result<(), GpuError> {
        self.device.health()?;
        let target = UploadTarget {
            device: &self.device,
            program: &self.program,
            plan: &self.plan,
            buffers: &self.buffers,
            pipelines: &self.pipelines,
        };
        self.uploads.rows(target, matrix, first_row, bytes).await
    }

    /// Writes elements of a constant vector.
    pub fn upload_vector(
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

    /// Compiles what prompts and decoding need and waits for the uploads. `progress` hears (done, total).
    pub async fn compile(&mut self, mut progress: impl FnMut(usize, usize)) -> Result<(), GpuError> {
        let mut kernels = vec![Kernel::Choose, Kernel::Accept];
        let one = self.batch(1, Product::Lane(1), false, 1);
        let prompts = [1, 2, self.plan.request.batch_tokens];
        let prompts = prompts.map(|tokens| self.batch(tokens, Product::for_prompt(tokens), true, tokens));
        for batch in [one].into_iter().chain(prompts) {
            for op in &self.body {
                encode::visit(op, batch, &mut |kernel, _, _| kernels.push(kernel));
            }
        }
        for page in &self.head {
            kernels.push(one.product.kernel(page, 1, one.packed_dot).0);
        }
        self.resolve(kernels, &mut progress).await?;
        self.uploads.finish().await?;
        self.device.health()
    }

    async fn resolve(
        &mut self,
        kernels: Vec<Kernel>,
        progress: &mut impl FnMut(usize, usize),
    ) -> Result<(), GpuError> {
        let mut wanted: Vec<Kernel> = Vec::new();
        for kernel in kernels {
            if !self.resolved.contains_key(&kernel) && !wanted.contains(&kernel) {
                wanted.push(kernel);
            }
        }
        let total = wanted.len();
        for (done, kernel) in wanted.into_iter().enumerate() {
            progress(done, total);
            let pipeline = self.pipelines.get(kernel).await?;
            self.resolved.insert(kernel, pipeline);
        }
        progress(total, total);
        Ok(())
    }

    fn batch(&self, tokens: u32, product: Product, is_prompt: bool, positions_max: u32) -> Batch {
        Batch {
            tokens,
            product,
            is_prompt,
            positions_max: positions_max.min(self.plan.cache_rows),
            kv_format: self.plan.request.kv_format,
            packed_dot: self.device.facts().has_packed_dot,
            partial_rows: self.plan.partial_rows,
        }
    }

    /// Starts a request: end ids, limits, an empty ring. The cache keeps its rows.
    pub fn begin(&mut self, setup: &RequestSetup) -> Result<(), GpuError> {
        if setup.end_ids.len() > END_IDS_MAX as usize {
            return Err(GpuError::BatchTooLarge { wanted: setup.end_ids.len(), limit: END_IDS_MAX as usize });
        }
        let mut words = vec![0u32; (CONTROL_BYTES / 4) as usize];
        let control = ControlBlock {
            context: setup.context_len.min(self.plan.request.context_len),
            tokens_left: setup.token_limit,
            ..ControlBlock::default()
        };
        words[..9].copy_from_slice(&control.to_words());
        let ids = &mut words[END_IDS_WORD as usize..][..END_IDS_MAX as usize];
        ids.fill(u32::MAX);
        ids[..setup.end_ids.len()].copy_from_slice(&setup.end_ids);
        let queue = self.device.queue();
        queue.write_buffer(self.buffers.get(BufferOwner::Control)?, 0, bytemuck::cast_slice(&words));
        queue.write_buffer(self.buffers.get(BufferOwner::Faults)?, 0, &[0; 4]);
        let record = choose::Params { len: self.program.vocabulary_len, hash: u32::from(setup.hash_logits) };
        let params = self.buffers.get(BufferOwner::Params)?;
        queue.write_buffer(params, self.choose_record, bytemuck::bytes_of(&record));
        self.reported.set(0);
        self.positions_bound = 0;
        Ok(())
    }

    /// Submits a prompt batch at positions `base..`; with `choose`, the last row picks the first token of the
    /// reply. Resolves when the control block has been read back.
    pub fn prefill(&mut self, base: u32, tokens: &[u32], choose: bool) -> Result<PendingReport, GpuError> {
        let batch = self.write_prompt(base, tokens)?;
        self.submit(|runner, recorder| {
            for op in &runner.body {
                recorder.op(op, batch)?;
            }
            if choose { runner.finish_step(recorder) } else { Ok(()) }
        })
    }

    fn write_prompt(&mut self, base: u32, tokens: &[u32]) -> Result<Batch, GpuError> {
        let limit = self.plan.request.batch_tokens as usize;
        if tokens.is_empty() || tokens.len() > limit {
            return Err(GpuError::BatchTooLarge { wanted: tokens.len(), limit });
        }
        let live = tokens.len() as u32;
        let queue = self.device.queue();
        queue.write_buffer(self.buffers.get(BufferOwner::Tokens)?, 0, bytemuck::cast_slice(tokens));
        queue.write_buffer(self.buffers.get(BufferOwner::Control)?, 0, bytemuck::cast_slice(&[base, live]));
        self.positions_bound = base + live;
        Ok(self.batch(live, Product::for_prompt(live), true, self.positions_bound))
    }

    /// Submits a window of decode steps; resolves when its control block and tokens have been read back.
    /// Submitted when called, so that the next window can follow before this one is read.
    pub fn window(&mut self, steps: u32) -> Result<PendingReport, GpuError> {
        let first = self.positions_bound;
        self.positions_bound += steps;
        self.submit(|runner, recorder| {
            for step in 0..steps {
                let batch = runner.batch(1, Product::Lane(1), false, first + step + 1);
                for op in &runner.body {
                    recorder.op(op, batch)?;
                }
                runner.finish_step(recorder)?;
            }
            Ok(())
        })
    }

    /// Logits of every row of a prompt batch: `[tokens, vocabulary]`, raw. For measuring models, not for
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
        let report = self.submit(|runner, recorder| {
            for op in &runner.body {
                recorder.op(op, batch)?;
            }
            recorder.multiply(&runner.head_all, batch.product, batch)
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
            self.submit(|runner, recorder| recorder.op(&runner.body[index], batch))?.await?;
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

    /// Head, choice, commit.
    fn finish_step(&self, recorder: &mut Recorder) -> Result<(), GpuError> {
        let one = self.batch(1, Product::Lane(1), false, 1);
        recorder.multiply(&self.head, one.product, one)?;
        recorder.dispatch(self.choose.kernel, &self.choose.group, [choose::SLICES, 1, 1])?;
        recorder.dispatch(self.accept.kernel, &self.accept.group, [1, 1, 1])
    }

    fn submit(
        &self,
        record: impl FnOnce(&Self, &mut Recorder) -> Result<(), GpuError>,
    ) -> Result<PendingReport, GpuError> {
        self.device.health()?;
        let (index, slot) = (0u32..)
            .zip(&self.slots)
            .find(|(_, slot)| !slot.get())
            .ok_or(GpuError::NoReadbackSlot { slots: self.slots.len() })?;
        let readback = self.buffers.get(BufferOwner::Readback(index))?;
        let mut encoder = self
            .device
            .raw()
            .create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("window") });
        let mut recorder = Recorder {
            pass: encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()),
            pipelines: &self.resolved,
            dispatches: 0,
        };
        let recorded = record(self, &mut recorder);
        let dispatches = recorder.dispatches;
        drop(recorder);
        recorded?;
        encoder.copy_buffer_to_buffer(
            self.buffers.get(BufferOwner::Control)?,
            0,
            readback,
            0,
            Some(CONTROL_BYTES),
        );
        let submission = self.device.submit(encoder.finish());
        slot.set(true);
        let (slot, reported) = (slot.clone(), self.reported.clone());
        let words = self.device.read(readback, submission);
        Ok(async move {
            let words = words.await;
            slot.set(false);
            report(&words?, &reported, dispatches)
        }
        .boxed_local())
    }
}

/// Rows of a position table written at once.
const ROPE_ROWS: u32 = 1024;

fn report(words: &[u32], reported: &Cell<u32>, dispatches: u32) -> Result<WindowReport, GpuError> {
    let control = ControlBlock::from_words(words)
        .ok_or_else(|| GpuError::Lost { reason: "the readback is too short".into() })?;
    let ring = &words[RING_WORD as usize..];
    let tokens = (reported.get()..control.ring_head).map(|t| ring[(t % RING_LEN) as usize]).collect();
    reported.set(control.ring_head);
    Ok(WindowReport { control, tokens, dispatches })
}

async fn bind_accept(device: &Device, buffers: &Buffers, pipelines: &Pipelines) -> Result<Bind, GpuError> {
    let pipeline = pipelines.get(Kernel::Accept).await?;
    let bound = [
        Bound::whole(0, buffers.get(BufferOwner::ChoicePartials)?),
        Bound::whole(1, buffers.get(BufferOwner::Tokens)?),
        Bound::whole(6, buffers.get(BufferOwner::Faults)?),
        Bound::whole(7, buffers.get(BufferOwner::Control)?),
    ];
    Ok(Bind { kernel: Kernel::Accept, group: pipeline.bind(device, &bound) })
}
