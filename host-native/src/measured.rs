//! A model that its measurement owns: placed on the GPU without an engine, phase by phase on the clock.

use std::rc::Rc;

use anyhow::Result;

use fanlight_actors::kit::{Clock, Latch};
use fanlight_actors::pager::{InspectRequest, OwnDevice, Site, open_model, place_model, plan};
use fanlight_actors::source::NamedSource;
use fanlight_gpu::{GpuBackend, Runner};
use fanlight_messages::backend::Backend;
use fanlight_messages::bytes::SharedBytes;
use fanlight_messages::device::{AdapterFacts, Quarantined};
use fanlight_messages::error::LoadError;
use fanlight_messages::plan::{BufferOwner, GpuPlan};
use fanlight_messages::program::{MatrixId, Op, Program, VectorId};
use fanlight_messages::protocol::engine::LoadProgress;

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
    /// Header and memory plan.
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
    /// Bytes on the device.
    pub gpu_bytes: u64,
    /// Bytes of the same rows in the file.
    pub file_bytes: u64,
}

/// A loaded model and what loading it took.
#[derive(Debug)]
pub struct MeasuredModel {
    /// Its name.
    pub name: String,
    /// What runs it.
    pub adapter: AdapterFacts,
    /// Bytes of weights that were read.
    pub read_bytes: u64,
    /// What the load took.
    pub times: LoadTimes,
    /// The model itself, and what it measures of itself.
    pub runner: Runner,
    program: Rc<Program>,
}

impl MeasuredModel {
    /// Loads a model with all its weights.
    ///
    /// # Errors
    /// Those of every load.
    pub async fn load(
        backend: &GpuBackend,
        sources: Vec<NamedSource>,
        request: &InspectRequest,
        progress: &Latch<LoadProgress>,
    ) -> Result<Self, LoadError> {
        let clock = Clock::real();
        let mut site = TimedDevice::new(backend, clock);
        let (opened, adapter) = (open_model(sources).await?, backend.facts());
        let name = opened.file.metadata.get_text("general.name");
        let name = name.map_err(|error| LoadError::Text { reason: error.to_string() })?;
        let (name, program) = (name.unwrap_or_default().into_owned(), opened.program.clone());
        let plan = plan(&program, request, adapter.binding_bytes_max)?;
        let placement = opened.placement(plan)?;
        site.times.open = site.lap();
        let placed = place_model(&mut site, &placement, progress, || false).await?;
        let TimedDevice { device, times, .. } = site;
        let (runner, read_bytes) = (device.into_model()?, placed.read_bytes);
        Ok(Self { name, adapter, read_bytes, times, runner, program })
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
}

/// A device that notes what each phase of placing a model takes.
struct TimedDevice<'a> {
    device: OwnDevice<'a, GpuBackend>,
    times: LoadTimes,
    clock: Clock,
    lap_us: u64,
    lap_pipelines: usize,
}

impl<'a> TimedDevice<'a> {
    fn new(backend: &'a GpuBackend, clock: Clock) -> Self {
        let lap_us = clock.now_us();
        let device = OwnDevice::new(backend);
        Self { device, times: LoadTimes::default(), clock, lap_us, lap_pipelines: 0 }
    }

    /// What passed since the phase before.
    fn lap(&mut self) -> PhaseTime {
        let (now_us, now) =
            (self.clock.now_us(), self.device.model().map_or(0, |model| model.pipeline_count()));
        let lap = PhaseTime { us: now_us - self.lap_us, pipelines: now - self.lap_pipelines };
        (self.lap_us, self.lap_pipelines) = (now_us, now);
        lap
    }
}

impl Site for TimedDevice<'_> {
    async fn create(&mut self, program: &Rc<Program>, plan: &Rc<GpuPlan>) -> Result<(), LoadError> {
        self.device.create(program, plan).await?;
        self.times.create = self.lap();
        Ok(())
    }

    async fn upload_matrix(
        &mut self,
        matrix: MatrixId,
        first_row: u64,
        bytes: SharedBytes,
    ) -> Result<(), LoadError> {
        self.device.upload_matrix(matrix, first_row, bytes).await
    }

    async fn upload_vector(
        &mut self,
        vector: VectorId,
        element_offset: u32,
        values: Vec<f32>,
    ) -> Result<(), LoadError> {
        self.device.upload_vector(vector, element_offset, values).await
    }

    async fn compile(&mut self, progress: &Latch<LoadProgress>) -> Result<Option<Quarantined>, LoadError> {
        self.times.upload = self.lap();
        let quarantined = self.device.compile(progress).await?;
        self.times.compile = self.lap();
        Ok(quarantined)
    }
}
