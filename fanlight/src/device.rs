//! Which device runs a model, and the back end that is either of them.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use fanlight_cpu::{CpuBackend, CpuModel, threads_default};
use fanlight_gpu::{AdapterPreference, GpuBackend, Runner};
use fanlight_messages::backend::{Backend, BackendModel, StreamedModel};
use fanlight_messages::device::{
    AdapterFacts, PassWork, Preparation, Quarantined, RequestSetup, WindowReport,
};
use fanlight_messages::draft::Width;
use fanlight_messages::error::DeviceError;
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::program::{MatrixId, Program, VectorId};
use fanlight_messages::sampling::Sampling;
use futures::FutureExt;
use futures::future::{Either, LocalBoxFuture};

/// What a host asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// A GPU where there is a real one, else the processor. A driver that computes on the processor in place
    /// of a GPU is never taken: the processor's own kernels are some twenty times as fast.
    #[default]
    Auto,
    /// The GPU, a software driver too.
    Gpu,
    /// The processor.
    Cpu,
}

/// An open device, and why it is not the GPU that was looked for first.
#[derive(Debug)]
pub struct OpenedDevice {
    /// The device.
    pub backend: AnyBackend,
    /// Why there is no GPU, where `auto` looked for one.
    pub no_gpu: Option<DeviceError>,
}

/// A GPU or the processor. Clones share it; what replaces a GPU that stays away, too.
#[derive(Debug, Clone)]
pub struct AnyBackend {
    device: Rc<RefCell<Device>>,
    falls_back: bool,
    threads: usize,
}

#[derive(Debug, Clone)]
enum Device {
    Gpu(GpuBackend),
    Cpu(CpuBackend),
}

impl AnyBackend {
    /// Opens a device. `threads` is for the processor; `None` takes as many as help.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`] when a GPU was asked for and there is none.
    pub async fn open(choice: DeviceChoice, threads: Option<usize>) -> Result<OpenedDevice, DeviceError> {
        let threads = threads.unwrap_or_else(threads_default);
        let falls_back = choice == DeviceChoice::Auto;
        let opened = |device, no_gpu| OpenedDevice {
            backend: Self { device: Rc::new(RefCell::new(device)), falls_back, threads },
            no_gpu,
        };
        let cpu = || Device::Cpu(CpuBackend::new(threads));
        if choice == DeviceChoice::Cpu {
            return Ok(opened(cpu(), None));
        }
        match GpuBackend::open(AdapterPreference::HighPerformance).await {
            Ok(gpu) if !(falls_back && gpu.facts().kind.is_software()) => Ok(opened(Device::Gpu(gpu), None)),
            Ok(software) => {
                let name = software.facts().name;
                let reason = format!("{name} computes on the processor in place of a GPU");
                Ok(opened(cpu(), Some(DeviceError::Unavailable { reason })))
            }
            Err(error) if falls_back => Ok(opened(cpu(), Some(error))),
            Err(error) => Err(error),
        }
    }

    fn device(&self) -> Device {
        self.device.borrow().clone()
    }

    /// The GPU, where that is the device.
    pub fn gpu(&self) -> Option<GpuBackend> {
        match self.device() {
            Device::Gpu(gpu) => Some(gpu),
            Device::Cpu(_) => None,
        }
    }
}

impl Backend for AnyBackend {
    type Model = AnyModel;

    fn facts(&self) -> AdapterFacts {
        match &*self.device.borrow() {
            Device::Gpu(gpu) => gpu.facts(),
            Device::Cpu(cpu) => cpu.facts(),
        }
    }

    fn health(&self) -> Result<(), DeviceError> {
        match &*self.device.borrow() {
            Device::Gpu(gpu) => gpu.health(),
            Device::Cpu(cpu) => cpu.health(),
        }
    }

    /// A GPU that stays away is replaced by the processor where `auto` was asked for.
    async fn reopen(&self) -> Result<(), DeviceError> {
        match self.device() {
            Device::Cpu(cpu) => cpu.reopen().await,
            Device::Gpu(gpu) => match gpu.reopen().await {
                Err(_) if self.falls_back => {
                    self.device.replace(Device::Cpu(CpuBackend::new(self.threads)));
                    Ok(())
                }
                reopened => reopened,
            },
        }
    }

    async fn create(&self, program: Rc<Program>, plan: Rc<GpuPlan>) -> Result<AnyModel, DeviceError> {
        match self.device() {
            Device::Gpu(gpu) => Ok(AnyModel::Gpu(Box::new(gpu.create(program, plan).await?))),
            Device::Cpu(cpu) => Ok(AnyModel::Cpu(Box::new(cpu.create(program, plan).await?))),
        }
    }
}

/// A model on either.
#[derive(Debug)]
pub enum AnyModel {
    /// On a GPU.
    Gpu(Box<Runner>),
    /// On the processor.
    Cpu(Box<CpuModel>),
}

/// The answer of either.
type Pending<T> = LocalBoxFuture<'static, Result<T, DeviceError>>;

/// Calls a method of either that gives no future of its own.
macro_rules! either {
    ($model:expr, $of:ident => $call:expr) => {
        match $model {
            AnyModel::Gpu($of) => {
                let $of = &mut **$of;
                $call
            }
            AnyModel::Cpu($of) => {
                let $of = &mut **$of;
                $call
            }
        }
    };
}

/// Awaits a method of either.
macro_rules! either_future {
    ($model:expr, $of:ident => $call:expr) => {
        match $model {
            AnyModel::Gpu($of) => {
                let $of = &mut **$of;
                Either::Left($call)
            }
            AnyModel::Cpu($of) => {
                let $of = &mut **$of;
                Either::Right($call)
            }
        }
    };
}

impl BackendModel for AnyModel {
    fn upload_matrix(
        &mut self,
        matrix: MatrixId,
        first_row: u64,
        bytes: &[u8],
    ) -> impl Future<Output = Result<(), DeviceError>> {
        either_future!(self, model => model.upload_matrix(matrix, first_row, bytes))
    }

    fn upload_vector(
        &mut self,
        vector: VectorId,
        element_offset: u32,
        values: &[f32],
    ) -> Result<(), DeviceError> {
        either!(self, model => BackendModel::upload_vector(model, vector, element_offset, values))
    }

    fn compile(
        &mut self,
        progress: impl FnMut(u64, u64),
    ) -> impl Future<Output = Result<Option<Quarantined>, DeviceError>> {
        either_future!(self, model => BackendModel::compile(model, progress))
    }

    fn prepare_next(&mut self, width: Width) -> impl Future<Output = Result<Preparation, DeviceError>> {
        either_future!(self, model => BackendModel::prepare_next(model, width))
    }

    fn prepare_sampling(&mut self, sampling: &Sampling) -> impl Future<Output = Result<(), DeviceError>> {
        either_future!(self, model => BackendModel::prepare_sampling(model, sampling))
    }

    fn time_choice(&mut self) -> impl Future<Output = Result<u64, DeviceError>> {
        either_future!(self, model => BackendModel::time_choice(model))
    }

    fn begin(&mut self, setup: &RequestSetup) -> Result<(), DeviceError> {
        either!(self, model => BackendModel::begin(model, setup))
    }

    fn prefill(
        &mut self,
        base: u32,
        tokens: &[u32],
        choose: bool,
        parts: u32,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError> {
        let pending: Pending<WindowReport> = either!(self, model => {
            BackendModel::prefill(model, base, tokens, choose, parts)?.boxed_local()
        });
        Ok(pending)
    }

    fn window(
        &mut self,
        steps: u32,
        width: Width,
        parts: u32,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError> {
        let pending: Pending<WindowReport> =
            either!(self, model => BackendModel::window(model, steps, width, parts)?.boxed_local());
        Ok(pending)
    }
}

impl StreamedModel for AnyModel {
    fn arriving_page(&self) -> usize {
        match self {
            Self::Gpu(model) => StreamedModel::arriving_page(&**model),
            Self::Cpu(model) => model.arriving_page(),
        }
    }

    fn has_room(&self, matrix: MatrixId, first_row: u64) -> bool {
        match self {
            Self::Gpu(model) => StreamedModel::has_room(&**model, matrix, first_row),
            Self::Cpu(model) => model.has_room(matrix, first_row),
        }
    }

    fn upload_gathered(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), DeviceError>> {
        either_future!(self, model => StreamedModel::upload_gathered(model, bytes))
    }

    fn draft(
        &mut self,
        width: Width,
    ) -> Result<impl Future<Output = Result<Vec<u32>, DeviceError>> + 'static, DeviceError> {
        let pending: Pending<Vec<u32>> =
            either!(self, model => StreamedModel::draft(model, width)?.boxed_local());
        Ok(pending)
    }

    fn start_pass(&mut self, work: PassWork<'_>) -> Result<(), DeviceError> {
        either!(self, model => StreamedModel::start_pass(model, work))
    }

    fn continue_pass(
        &mut self,
    ) -> Result<Option<impl Future<Output = Result<WindowReport, DeviceError>> + 'static>, DeviceError> {
        let pending: Option<Pending<WindowReport>> = either!(self, model => {
            StreamedModel::continue_pass(model)?.map(|pending| pending.boxed_local())
        });
        Ok(pending)
    }
}
