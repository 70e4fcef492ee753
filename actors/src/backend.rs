//! The device as the submitter sees it. The GPU implements it; simulations implement it with a scripted
//! device.

use std::future::Future;
use std::rc::Rc;

use fanlight_messages::device::{AdapterFacts, RequestSetup, WindowReport};
use fanlight_messages::draft::Width;
use fanlight_messages::error::DeviceError;
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::program::{MatrixId, Program, VectorId};

/// A device that can hold one model.
pub trait Backend: 'static {
    /// A model on it; dropping it frees its buffers.
    type Model: BackendModel;

    /// What the adapter is.
    fn facts(&self) -> AdapterFacts;

    /// Opens the device again after it was lost; waits for it for a while.
    ///
    /// # Errors
    /// When it does not come back.
    fn reopen(&self) -> impl Future<Output = Result<(), DeviceError>>;

    /// Creates every buffer of `plan`.
    ///
    /// # Errors
    /// When the device refuses a buffer; nothing stays behind.
    fn create(
        &self,
        program: Rc<Program>,
        plan: Rc<GpuPlan>,
    ) -> impl Future<Output = Result<Self::Model, DeviceError>>;
}

/// A model on a device.
pub trait BackendModel: 'static {
    /// Uploads whole rows in file format, from `first_row` on. Awaiting it is the back-pressure.
    fn upload_matrix(
        &mut self,
        matrix: MatrixId,
        first_row: u64,
        bytes: &[u8],
    ) -> impl Future<Output = Result<(), DeviceError>>;

    /// Uploads elements of a constant vector.
    fn upload_vector(
        &mut self,
        vector: VectorId,
        element_offset: u32,
        values: &[f32],
    ) -> Result<(), DeviceError>;

    /// Creates the pipelines; calls `progress(done, total)` after each.
    fn compile(&mut self, progress: impl FnMut(u64, u64)) -> impl Future<Output = Result<(), DeviceError>>;

    /// Creates one pipeline that steps of `width` need and that is new; true when there is none left.
    ///
    /// # Errors
    /// When the width is none that the device can run.
    fn prepare_next(&mut self, width: Width) -> impl Future<Output = Result<bool, DeviceError>>;

    /// Resets the control block for a request.
    fn begin(&mut self, setup: &RequestSetup) -> Result<(), DeviceError>;

    /// Submits prompt `tokens` at positions `base..`; with `choose` the first token of the reply is chosen.
    ///
    /// The submission is made before this returns; the future resolves when its report is read back.
    fn prefill(
        &mut self,
        base: u32,
        tokens: &[u32],
        choose: bool,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError>;

    /// Submits a window of `steps` steps of a prepared width, like [`prefill`](Self::prefill).
    fn window(
        &mut self,
        steps: u32,
        width: Width,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError>;
}
