//! The real device behind the submitter: `fanlight-gpu` as a [`Backend`].

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures_timer::Delay;

pub use fanlight_gpu::AdapterPreference;
use fanlight_gpu::selftest::{self, SelfTestPlan};
pub use fanlight_gpu::selftest::{Scope, Verdict};
use fanlight_gpu::{Device, GpuError, Runner};
use fanlight_messages::device::{
    AdapterFacts, PassWork, Preparation, Quarantined, RequestSetup, WindowReport,
};
use fanlight_messages::draft::Width;
use fanlight_messages::error::DeviceError;
use fanlight_messages::limits::{REOPEN_MS_MAX, REOPEN_PAUSE_MS};
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::program::{MatrixId, Program, VectorId};
use fanlight_messages::sampling::Sampling;

use crate::backend::{Backend, BackendModel, StreamedModel};

/// An open GPU device; clones share it, and the one that replaces it.
#[derive(Debug, Clone)]
pub struct GpuBackend {
    device: Rc<RefCell<Device>>,
    preference: AdapterPreference,
}

impl GpuBackend {
    /// Opens the preferred adapter.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`] when there is none.
    pub async fn open(preference: AdapterPreference) -> Result<Self, DeviceError> {
        let device =
            Device::open(preference).await.map_err(|error| device_error(error, "opening the device"))?;
        Ok(Self { device: Rc::new(RefCell::new(device)), preference })
    }

    /// The device that is open now.
    pub fn device(&self) -> Device {
        self.device.borrow().clone()
    }

    /// Compares pairs of pipelines that may compute the same token, all or a cover of them; `progress` hears
    /// (done, total).
    ///
    /// # Errors
    /// When the device fails; a difference is a verdict, not an error.
    pub async fn verify(
        &self,
        scope: Scope,
        progress: impl FnMut(usize, usize),
    ) -> Result<Vec<Verdict>, DeviceError> {
        self.verify_plan(&SelfTestPlan::everything(scope), progress).await
    }

    pub(crate) async fn verify_plan(
        &self,
        plan: &SelfTestPlan,
        progress: impl FnMut(usize, usize),
    ) -> Result<Vec<Verdict>, DeviceError> {
        let verdicts = selftest::run(&self.device(), plan, progress).await;
        verdicts.map_err(|error| device_error(error, "comparing pipelines"))
    }
}

/// Sorts the device's errors by what a host can do about them.
pub(crate) fn device_error(error: GpuError, phase: &str) -> DeviceError {
    let phase = phase.to_owned();
    match error {
        GpuError::NoAdapter { .. } | GpuError::NoDevice { .. } => {
            DeviceError::Unavailable { reason: error.to_string() }
        }
        GpuError::Lost { reason } => DeviceError::Lost { reason },
        GpuError::OutOfMemory { .. } => DeviceError::OutOfMemory { phase: format!("{phase}: {error}") },
        other => DeviceError::Refused { phase, reason: other.to_string() },
    }
}

impl Backend for GpuBackend {
    type Model = Runner;

    fn facts(&self) -> AdapterFacts {
        self.device.borrow().facts().clone()
    }

    async fn reopen(&self) -> Result<(), DeviceError> {
        let mut waited_ms = 0;
        loop {
            match Device::open(self.preference).await {
                Ok(device) => {
                    self.device.replace(device);
                    return Ok(());
                }
                Err(error) if waited_ms >= REOPEN_MS_MAX => {
                    return Err(device_error(error, "opening the device again"));
                }
                Err(_) => {
                    Delay::new(Duration::from_millis(REOPEN_PAUSE_MS)).await;
                    waited_ms += REOPEN_PAUSE_MS;
                }
            }
        }
    }

    async fn create(&self, program: Rc<Program>, plan: Rc<GpuPlan>) -> Result<Runner, DeviceError> {
        let created = Runner::create(&self.device(), program, plan).await;
        created.map_err(|error| device_error(error, "creating buffers"))
    }
}

impl BackendModel for Runner {
    async fn upload_matrix(
        &mut self,
        matrix: MatrixId,
        first_row: u64,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        let uploaded = Runner::upload_matrix(self, matrix, first_row, bytes).await;
        uploaded.map_err(|error| device_error(error, "uploading weights"))
    }

    fn upload_vector(
        &mut self,
        vector: VectorId,
        element_offset: u32,
        values: &[f32],
    ) -> Result<(), DeviceError> {
        let uploaded = Runner::upload_vector(self, vector, element_offset, values);
        uploaded.map_err(|error| device_error(error, "uploading constants"))
    }

    async fn compile(
        &mut self,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Option<Quarantined>, DeviceError> {
        let compiled = Runner::compile(self, |done, total| progress(done as u64, total as u64)).await;
        compiled.map_err(|error| device_error(error, "compiling pipelines"))
    }

    async fn prepare_next(&mut self, width: Width) -> Result<Preparation, DeviceError> {
        let prepared = Runner::prepare_next(self, width).await;
        prepared.map_err(|error| device_error(error, "compiling pipelines"))
    }

    async fn prepare_sampling(&mut self, sampling: &Sampling) -> Result<(), DeviceError> {
        let prepared = Runner::prepare_sampling(self, sampling).await;
        prepared.map_err(|error| device_error(error, "compiling pipelines"))
    }

    async fn time_choice(&mut self) -> Result<u64, DeviceError> {
        Runner::time_choice(self).await.map_err(|error| device_error(error, "measuring"))
    }

    fn begin(&mut self, setup: &RequestSetup) -> Result<(), DeviceError> {
        Runner::begin(self, setup).map_err(|error| device_error(error, "beginning a request"))
    }

    fn prefill(
        &mut self,
        base: u32,
        tokens: &[u32],
        choose: bool,
        parts: u32,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError> {
        let phase = "evaluating the prompt";
        let pending = Runner::prefill(self, base, tokens, choose, parts);
        let pending = pending.map_err(|error| device_error(error, phase))?;
        Ok(pending.map(move |report| report.map_err(|error| device_error(error, phase))))
    }

    fn window(
        &mut self,
        steps: u32,
        width: Width,
        parts: u32,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError> {
        let phase = "decoding";
        let pending =
            Runner::window(self, steps, width, parts).map_err(|error| device_error(error, phase))?;
        Ok(pending.map(move |report| report.map_err(|error| device_error(error, phase))))
    }

    type Streamed = Self;

    fn streamed(&mut self) -> Result<&mut Self, DeviceError> {
        Ok(self)
    }
}

impl StreamedModel for Runner {
    fn arriving_page(&self) -> usize {
        Runner::arriving_page(self)
    }

    fn has_room(&self, matrix: MatrixId, first_row: u64) -> bool {
        Runner::has_room(self, matrix, first_row)
    }

    async fn upload_gathered(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        let uploaded = Runner::upload_gathered(self, bytes).await;
        uploaded.map_err(|error| device_error(error, "uploading embedding rows"))
    }

    fn draft(
        &mut self,
        width: Width,
    ) -> Result<impl Future<Output = Result<Vec<u32>, DeviceError>> + 'static, DeviceError> {
        let pending = Runner::draft(self, width).map_err(|error| device_error(error, "drafting"))?;
        Ok(pending.map(|tokens| tokens.map_err(|error| device_error(error, "drafting"))))
    }

    fn start_pass(&mut self, work: PassWork<'_>) -> Result<(), DeviceError> {
        Runner::start_pass(self, work).map_err(|error| device_error(error, "starting a pass"))
    }

    fn continue_pass(
        &mut self,
    ) -> Result<Option<impl Future<Output = Result<WindowReport, DeviceError>> + 'static>, DeviceError> {
        let phase = "running a pass";
        let pending = Runner::continue_pass(self).map_err(|error| device_error(error, phase))?;
        Ok(pending
            .map(|pending| pending.map(move |report| report.map_err(|error| device_error(error, phase)))))
    }
}
