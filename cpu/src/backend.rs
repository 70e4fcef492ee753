//! The back end: what the submitter drives.

use std::future::{Future, ready};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fanlight_compute::Level;
use fanlight_compute::team::Team;
use fanlight_messages::backend::{Backend, BackendModel, StreamedModel};
use fanlight_messages::device::{
    AdapterFacts, AdapterKind, Preparation, Quarantined, RequestSetup, WindowReport,
};
use fanlight_messages::draft::Width;
use fanlight_messages::error::DeviceError;
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::program::{MatrixId, Program, VectorId};
use fanlight_messages::sampling::Sampling;
use futures::FutureExt;

use crate::driver::{Answer, Driver};
use crate::machine::{Machine, Setup};

/// The processor.
#[derive(Debug, Clone)]
pub struct CpuBackend {
    level: Level,
    threads: usize,
}

impl CpuBackend {
    /// With `threads` threads, the computing one included, and the fastest instruction set that is there.
    pub fn new(threads: usize) -> Self {
        Self::with_level(threads, Level::best())
    }

    /// With an instruction set of choice: every one gives the same bits.
    pub fn with_level(threads: usize, level: Level) -> Self {
        Self { level, threads: threads.clamp(1, fanlight_compute::team::MEMBERS_MAX) }
    }

    /// Threads that compute.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The instruction set.
    pub fn level(&self) -> Level {
        self.level
    }
}

impl Backend for CpuBackend {
    type Model = CpuModel;

    fn facts(&self) -> AdapterFacts {
        let threads = match self.threads {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        };
        AdapterFacts {
            name: format!("{} processor, {threads}", std::env::consts::ARCH),
            backend: "cpu".into(),
            driver: self.level.name().into(),
            kind: AdapterKind::Cpu,
            binding_bytes_max: u64::MAX,
            has_packed_dot: true,
            threads: self.threads as u32,
        }
    }

    /// A processor is never lost.
    fn health(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn reopen(&self) -> impl Future<Output = Result<(), DeviceError>> {
        ready(Ok(()))
    }

    async fn create(&self, program: Rc<Program>, plan: Rc<GpuPlan>) -> Result<CpuModel, DeviceError> {
        if let Some(stream) = &plan.stream {
            let reason = format!(
                "{} bytes of weights would stream for every token; a processor keeps all of them in memory",
                stream.pass_bytes
            );
            return Err(DeviceError::Refused { phase: "creating buffers".into(), reason });
        }
        let (level, threads) = (self.level, self.threads);
        let shared = Arc::new((*program).clone());
        let owned = (*plan).clone();
        let make = move || Ok(Machine::new(shared, &owned, level, Team::new(threads)?));
        let refused = |error: std::io::Error| DeviceError::Refused {
            phase: "creating buffers".into(),
            reason: format!("no thread could be started: {error}"),
        };
        let (driver, made) = Driver::start(make).map_err(refused)?;
        answered(made, "creating buffers").await?.map_err(refused)?;
        Ok(CpuModel { driver, program, plan })
    }
}

/// A model in memory.
#[derive(Debug)]
pub struct CpuModel {
    driver: Driver,
    program: Rc<Program>,
    plan: Rc<GpuPlan>,
}

/// A machine that ended without an answer has panicked: the model is gone.
async fn answered<T>(answer: Answer<T>, phase: &'static str) -> Result<T, DeviceError> {
    let gone = |_| DeviceError::Lost { reason: format!("the computing thread ended while {phase}") };
    answer.await.map_err(gone)
}

fn refused(phase: &str, wanted: impl Into<String>) -> DeviceError {
    DeviceError::Refused { phase: phase.into(), reason: wanted.into() }
}

impl CpuModel {
    /// The plan it obeys.
    pub fn plan(&self) -> &GpuPlan {
        &self.plan
    }

    /// Logits of every row of a prompt batch: `[tokens, vocabulary]`, raw. For measuring models, not for
    /// decoding.
    ///
    /// # Errors
    /// When there are more rows than logits are kept for.
    pub async fn score(&mut self, base: u32, tokens: &[u32]) -> Result<Vec<f32>, DeviceError> {
        let limit = self.plan.request.logits_rows as usize;
        if tokens.is_empty() || tokens.len() > limit {
            let wanted = format!("1 to {limit} tokens, got {}", tokens.len());
            return Err(refused("scoring", wanted));
        }
        let tokens = tokens.to_vec();
        answered(self.driver.ask(move |machine| machine.score(base, tokens)), "scoring").await
    }
}

impl BackendModel for CpuModel {
    async fn upload_matrix(
        &mut self,
        matrix: MatrixId,
        first_row: u64,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        let spec = &self.program.matrices[matrix.index()];
        let row_bytes = spec.tensor_type.row_bytes(u64::from(spec.columns)).unwrap_or(0);
        let rows = (bytes.len() as u64).checked_div(row_bytes).unwrap_or(0);
        if rows * row_bytes != bytes.len() as u64 || first_row + rows > spec.rows {
            let wanted = format!("{}: {} rows, got {rows} at {first_row}", spec.name, spec.rows);
            return Err(refused("uploading weights", wanted));
        }
        let bytes = bytes.to_vec();
        let done = self.driver.ask(move |machine| machine.take_rows(matrix.index(), first_row, &bytes));
        answered(done, "uploading weights").await
    }

    fn upload_vector(
        &mut self,
        vector: VectorId,
        element_offset: u32,
        values: &[f32],
    ) -> Result<(), DeviceError> {
        let spec = &self.program.vectors[vector.index()];
        if element_offset as usize + values.len() > spec.len() as usize {
            let wanted =
                format!("{}: {} elements, got {} at {element_offset}", spec.name, spec.len(), values.len());
            return Err(refused("uploading constants", wanted));
        }
        let values = values.to_vec();
        let take = move |machine: &mut Machine| {
            machine.take_vector(vector.index(), element_offset as usize, &values);
        };
        drop(self.driver.ask(take));
        Ok(())
    }

    /// Nothing is compiled: the kernels are part of the program.
    async fn compile(
        &mut self,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Option<Quarantined>, DeviceError> {
        answered(self.driver.ask(|_| ()), "waiting for the weights").await?;
        progress(1, 1);
        Ok(None)
    }

    fn prepare_next(&mut self, width: Width) -> impl Future<Output = Result<Preparation, DeviceError>> {
        let allowed = width.rows() <= self.plan.request.logits_rows;
        let wanted =
            format!("{} nodes; the plan holds logits of {}", width.rows(), self.plan.request.logits_rows);
        ready(if allowed { Ok(Preparation::Done) } else { Err(refused("preparing a width", wanted)) })
    }

    fn prepare_sampling(&mut self, _: &Sampling) -> impl Future<Output = Result<(), DeviceError>> {
        ready(Ok(()))
    }

    async fn time_choice(&mut self) -> Result<u64, DeviceError> {
        let time = self.driver.ask(Machine::time_choice);
        let time: Duration = answered(time, "timing a choice").await?;
        Ok(time.as_nanos().try_into().unwrap_or(u64::MAX))
    }

    fn begin(&mut self, setup: &RequestSetup) -> Result<(), DeviceError> {
        let setup = Setup {
            end_ids: setup.end_ids.clone(),
            context_len: setup.context_len,
            token_limit: setup.token_limit,
            hash_logits: setup.hash_logits,
            hash: setup.hash,
            memory: setup.memory.to_vec(),
            sampling: (*setup.sampling).clone(),
            generated_from: setup.generated_from,
        };
        drop(self.driver.ask(move |machine| machine.begin(setup)));
        Ok(())
    }

    fn prefill(
        &mut self,
        base: u32,
        tokens: &[u32],
        choose: bool,
        _parts: u32,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError> {
        let limit = self.plan.request.batch_tokens as usize;
        if tokens.is_empty() || tokens.len() > limit {
            let wanted = format!("1 to {limit} tokens, got {}", tokens.len());
            return Err(refused("evaluating the prompt", wanted));
        }
        let tokens = tokens.to_vec();
        let report = self.driver.ask(move |machine| machine.prefill(base, tokens, choose));
        Ok(answered(report, "evaluating the prompt").boxed_local())
    }

    fn window(
        &mut self,
        steps: u32,
        width: Width,
        _parts: u32,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError> {
        if width.rows() > self.plan.request.logits_rows {
            let wanted = format!("{} nodes, got {}", self.plan.request.logits_rows, width.rows());
            return Err(refused("decoding", wanted));
        }
        let report = self.driver.ask(move |machine| machine.window(steps, width));
        Ok(answered(report, "decoding").boxed_local())
    }
}

/// Weights stay in memory: [`CpuBackend::create`] refuses plans that stream.
impl StreamedModel for CpuModel {}
