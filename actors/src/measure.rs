//! What hosts measure: a model is loaded by the engine as ever and then taken from it, so that nothing but
//! the measurement submits to the device; and the comparison of the pipelines that one model uses.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use fanlight_gpu::Runner;
use fanlight_gpu::selftest::SelfTestPlan;
use fanlight_messages::device::{AdapterFacts, Preparation, Quarantined, RequestSetup, WindowReport};
use fanlight_messages::draft::Width;
use fanlight_messages::error::{DeviceError, LoadError};
use fanlight_messages::plan::{BufferOwner, GpuPlan, KvFormat};
use fanlight_messages::program::{MatrixId, Op, Program, VectorId};
use fanlight_messages::protocol::engine::{Load, LoadProgress, ModelLoaded};
use fanlight_messages::sampling::Sampling;

pub use fanlight_gpu::runner::{DecodeTime, StepTime};

use crate::backend::{Backend, BackendModel};
use crate::engine::start_engine;
use crate::gpu_backend::{GpuBackend, Verdict, device_error};
use crate::kit::{Clock, Latch, World};
use crate::pager::model_program;
use crate::source::NamedSource;

/// What one phase of a load took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PhaseTime {
    /// Microseconds.
    pub us: u64,
    /// Pipelines compiled meanwhile.
    pub pipelines: usize,
}

/// What a load took, phase by phase, in the order in which they follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadTimes {
    /// Header, tokenizer, chat template, memory plan.
    pub open: PhaseTime,
    /// Creating buffers, position tables and what binds them.
    pub create: PhaseTime,
    /// Reading and uploading weights; the device may still work on the last two pieces.
    pub upload: PhaseTime,
    /// Compiling what remains and waiting for the last pieces.
    pub compile: PhaseTime,
}

/// Weights that one step reads, each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepWeights {
    /// Bytes as they lie on the device.
    pub gpu_bytes: u64,
    /// Bytes of the same rows in the file.
    pub file_bytes: u64,
}

/// A pipeline's share of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineTime {
    /// Which kernel, in which variant.
    pub name: String,
    /// Milliseconds of its dispatches in one step, nothing beside them on the device.
    pub ms: f64,
    /// Its dispatches in one step.
    pub dispatches: u32,
}

/// A loaded model that its measurement owns.
#[derive(Debug)]
pub struct MeasuredModel {
    /// What the engine said of it.
    pub loaded: ModelLoaded,
    /// What the load took.
    pub times: LoadTimes,
    runner: Runner,
    program: Rc<Program>,
}

impl MeasuredModel {
    /// Loads a model through an engine of its own and takes it from there.
    ///
    /// # Errors
    /// Those of every load.
    pub async fn load(
        world: &World,
        backend: GpuBackend,
        sources: Vec<NamedSource>,
        request: Load,
        progress: Latch<LoadProgress>,
    ) -> Result<Self, LoadError> {
        let clock = Clock::real();
        let returned = Rc::new(Cell::new(None));
        let lender = Lender { backend, clock: clock.clone(), returned: returned.clone() };
        let handle = start_engine(world, lender, clock.clone());
        let start_us = clock.now_us();
        let loaded = handle.load(request, sources, progress).await?;
        // The engine lets go of the model, which comes here instead of ending.
        handle.unload().await?;
        let Returned { runner, program, mut times, created_from_us } =
            returned.take().ok_or(LoadError::Device(DeviceError::NoModel))?;
        times.open.us = created_from_us.saturating_sub(start_us);
        Ok(Self { loaded, times, runner, program })
    }

    /// The plan of its memory, as the adapter's limits left it.
    pub fn plan(&self) -> &GpuPlan {
        self.runner.plan()
    }

    /// What one step reads of the weights: every matrix that is multiplied; of a table of embeddings that is
    /// not the head as well, a step reads but one row, which is left out.
    pub fn step_weights(&self) -> StepWeights {
        let ops = self.program.body.iter().chain([&self.program.head]);
        let mut matrices: Vec<MatrixId> = ops
            .filter_map(|op| if let Op::Multiply { matrix, .. } = op { Some(*matrix) } else { None })
            .collect();
        matrices.sort_unstable();
        matrices.dedup();
        let is_read = |owner| matches!(owner, BufferOwner::Page { matrix, .. } if matrices.contains(&matrix));
        let file_bytes = matrices.iter().filter_map(|matrix| {
            let spec = &self.program.matrices[matrix.index()];
            Some(spec.tensor_type.row_bytes(u64::from(spec.columns))? * spec.rows)
        });
        StepWeights { gpu_bytes: self.plan().bytes_where(is_read), file_bytes: file_bytes.sum() }
    }

    /// Milliseconds of a prompt batch of `tokens` tokens, at most the plan's batch: the median of several,
    /// warm.
    ///
    /// # Errors
    /// When the device fails.
    pub async fn prefill(&mut self, tokens: u32) -> Result<f64, DeviceError> {
        self.runner.time_prefill(tokens).await.map_err(measuring)
    }

    /// Plain decoding from cache length `base` on, in windows of `steps` of which `in_flight` are submitted
    /// at a time.
    ///
    /// # Errors
    /// When the device fails.
    pub async fn decode(&mut self, base: u32, steps: u32, in_flight: u32) -> Result<DecodeTime, DeviceError> {
        self.runner.time_decode(base, steps, in_flight).await.map_err(measuring)
    }

    /// Steps of every bucket of nodes at cache length `base`.
    ///
    /// # Errors
    /// When the device fails.
    pub async fn steps(&mut self, base: u32) -> Result<Vec<StepTime>, DeviceError> {
        let tokens_max = self.plan().request.logits_rows;
        self.runner.time_steps(base, tokens_max).await.map_err(measuring)
    }

    /// The drafting kernels by themselves, with `base` tokens of text to search: milliseconds of the scan and
    /// of the tree.
    ///
    /// # Errors
    /// When the device fails.
    pub async fn drafting(&mut self, base: u32) -> Result<(f64, f64), DeviceError> {
        self.runner.time_drafting(base).await.map_err(measuring)
    }

    /// Each pipeline of a step of `tokens` nodes by itself.
    ///
    /// # Errors
    /// When the device fails.
    pub async fn pipelines(&mut self, base: u32, tokens: u32) -> Result<Vec<PipelineTime>, DeviceError> {
        let times = self.runner.time_pipelines(base, tokens).await.map_err(measuring)?;
        Ok(times.into_iter().map(|(name, ms, dispatches)| PipelineTime { name, ms, dispatches }).collect())
    }
}

fn measuring(error: fanlight_gpu::GpuError) -> DeviceError {
    device_error(error, "measuring")
}

/// Compares the pipelines that a model uses; no weight is read. `progress` hears (done, total).
///
/// # Errors
/// When the model cannot be opened or the device fails; a difference is a verdict, not an error.
pub async fn verify_model(
    backend: &GpuBackend,
    sources: Vec<NamedSource>,
    kv_format: KvFormat,
    progress: impl FnMut(usize, usize),
) -> Result<Vec<Verdict>, LoadError> {
    let program = model_program(sources).await?;
    Ok(backend.verify_plan(&SelfTestPlan::of(&program, kv_format), progress).await?)
}

/// What comes back when the engine lets go of a model.
struct Returned {
    runner: Runner,
    program: Rc<Program>,
    times: LoadTimes,
    created_from_us: u64,
}

/// The device of an engine whose model is not destroyed but handed back.
struct Lender {
    backend: GpuBackend,
    clock: Clock,
    returned: Rc<Cell<Option<Returned>>>,
}

impl Backend for Lender {
    type Model = LentModel;

    fn facts(&self) -> AdapterFacts {
        self.backend.facts()
    }

    async fn reopen(&self) -> Result<(), DeviceError> {
        self.backend.reopen().await
    }

    async fn create(&self, program: Rc<Program>, plan: Rc<GpuPlan>) -> Result<LentModel, DeviceError> {
        let created_from_us = self.clock.now_us();
        let runner = self.backend.create(program.clone(), plan).await?;
        let created_us = self.clock.now_us();
        let create = PhaseTime { us: created_us - created_from_us, pipelines: runner.pipeline_count() };
        let times = LoadTimes { create, ..LoadTimes::default() };
        let lent = Some(Returned { runner, program, times, created_from_us });
        Ok(LentModel { lent, created_us, clock: self.clock.clone(), returned: self.returned.clone() })
    }
}

/// A model that goes back to its lender when it is dropped.
struct LentModel {
    lent: Option<Returned>,
    created_us: u64,
    clock: Clock,
    returned: Rc<Cell<Option<Returned>>>,
}

impl Drop for LentModel {
    fn drop(&mut self) {
        self.returned.set(self.lent.take());
    }
}

impl LentModel {
    fn lent(&mut self) -> Result<&mut Returned, DeviceError> {
        self.lent.as_mut().ok_or(DeviceError::NoModel)
    }
}

impl BackendModel for LentModel {
    async fn upload_matrix(
        &mut self,
        matrix: MatrixId,
        first_row: u64,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        BackendModel::upload_matrix(&mut self.lent()?.runner, matrix, first_row, bytes).await
    }

    fn upload_vector(
        &mut self,
        vector: VectorId,
        element_offset: u32,
        values: &[f32],
    ) -> Result<(), DeviceError> {
        BackendModel::upload_vector(&mut self.lent()?.runner, vector, element_offset, values)
    }

    async fn compile(&mut self, progress: impl FnMut(u64, u64)) -> Result<Option<Quarantined>, DeviceError> {
        let (created_us, clock) = (self.created_us, self.clock.clone());
        let Returned { runner, times, .. } = self.lent()?;
        let uploaded_us = clock.now_us();
        let before = runner.pipeline_count();
        let quarantined = BackendModel::compile(runner, progress).await?;
        times.upload = PhaseTime { us: uploaded_us - created_us, pipelines: before - times.create.pipelines };
        times.compile =
            PhaseTime { us: clock.now_us() - uploaded_us, pipelines: runner.pipeline_count() - before };
        Ok(quarantined)
    }

    async fn prepare_next(&mut self, width: Width) -> Result<Preparation, DeviceError> {
        BackendModel::prepare_next(&mut self.lent()?.runner, width).await
    }

    async fn prepare_sampling(&mut self, sampling: &Sampling) -> Result<(), DeviceError> {
        BackendModel::prepare_sampling(&mut self.lent()?.runner, sampling).await
    }

    async fn time_choice(&mut self) -> Result<u64, DeviceError> {
        BackendModel::time_choice(&mut self.lent()?.runner).await
    }

    fn begin(&mut self, setup: &RequestSetup) -> Result<(), DeviceError> {
        BackendModel::begin(&mut self.lent()?.runner, setup)
    }

    fn prefill(
        &mut self,
        base: u32,
        tokens: &[u32],
        choose: bool,
        parts: u32,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError> {
        BackendModel::prefill(&mut self.lent()?.runner, base, tokens, choose, parts)
    }

    fn window(
        &mut self,
        steps: u32,
        width: Width,
        parts: u32,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError> {
        BackendModel::window(&mut self.lent()?.runner, steps, width, parts)
    }

    type Streamed = Runner;

    fn streamed(&mut self) -> Result<&mut Runner, DeviceError> {
        Ok(&mut self.lent()?.runner)
    }
}
