//! The GPU as a back end: the device that is open now, and what replaces it when it is lost.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use futures_timer::Delay;

use fanlight_messages::backend::Backend;
use fanlight_messages::device::AdapterFacts;
use fanlight_messages::error::DeviceError;
use fanlight_messages::limits::{REOPEN_MS_MAX, REOPEN_PAUSE_MS};
use fanlight_messages::plan::{GpuPlan, KvFormat};
use fanlight_messages::program::Program;

use crate::device::{AdapterPreference, Device, During};
use crate::runner::Runner;
use crate::selftest::{self, Scope, SelfTestPlan, Verdict, Verdicts};

/// An open GPU device; clones share it, and the one that replaces it.
#[derive(Debug, Clone)]
pub struct GpuBackend(Rc<RefCell<Opened>>);

/// A device, and what was found of pipelines for as long as it is open.
#[derive(Debug)]
struct Opened {
    device: Device,
    verdicts: Rc<Verdicts>,
}

impl From<Device> for Opened {
    fn from(device: Device) -> Self {
        Self { device, verdicts: Rc::default() }
    }
}

impl From<Device> for GpuBackend {
    fn from(device: Device) -> Self {
        Self(Rc::new(RefCell::new(device.into())))
    }
}

impl GpuBackend {
    /// Opens the preferred adapter.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`] when there is none.
    pub async fn open(preference: AdapterPreference) -> Result<Self, DeviceError> {
        Ok(Device::open(preference).await.during("opening the device")?.into())
    }

    /// The device that is open now.
    pub fn device(&self) -> Device {
        self.0.borrow().device.clone()
    }

    /// Compares pairs of pipelines that may compute the same token, all or a cover of them; calls
    /// `progress(done, total)`.
    ///
    /// # Errors
    /// When the device fails; a difference is a verdict, not an error.
    pub async fn verify(
        &self,
        scope: Scope,
        progress: impl FnMut(usize, usize),
    ) -> Result<Vec<Verdict>, DeviceError> {
        self.compare(&SelfTestPlan::everything(scope), progress).await
    }

    /// Compares the pipelines that a model uses; no weight is needed.
    ///
    /// # Errors
    /// As [`verify`](Self::verify).
    pub async fn verify_program(
        &self,
        program: &Program,
        kv_format: KvFormat,
        progress: impl FnMut(usize, usize),
    ) -> Result<Vec<Verdict>, DeviceError> {
        self.compare(&SelfTestPlan::of(program, kv_format), progress).await
    }

    async fn compare(
        &self,
        plan: &SelfTestPlan,
        progress: impl FnMut(usize, usize),
    ) -> Result<Vec<Verdict>, DeviceError> {
        selftest::run(&self.device(), plan, progress).await.during("comparing pipelines")
    }
}

impl Backend for GpuBackend {
    type Model = Runner;

    fn facts(&self) -> AdapterFacts {
        self.0.borrow().device.facts().clone()
    }

    async fn reopen(&self) -> Result<(), DeviceError> {
        let (preference, mut waited_ms) = (self.device().preference(), 0);
        loop {
            match Device::open(preference).await {
                Ok(device) => {
                    self.0.replace(device.into());
                    return Ok(());
                }
                failed if waited_ms >= REOPEN_MS_MAX => {
                    return failed.map(drop).during("opening the device again");
                }
                Err(_) => {
                    Delay::new(Duration::from_millis(REOPEN_PAUSE_MS)).await;
                    waited_ms += REOPEN_PAUSE_MS;
                }
            }
        }
    }

    async fn create(&self, program: Rc<Program>, plan: Rc<GpuPlan>) -> Result<Runner, DeviceError> {
        let verdicts = self.0.borrow().verdicts.clone();
        Runner::create(&self.device(), verdicts, program, plan).await.during("creating buffers")
    }
}
