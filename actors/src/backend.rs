//! The device as the submitter sees it. The GPU implements it; simulations implement it with a scripted
//! device.

use std::future::Future;
use std::rc::Rc;

use fanlight_messages::device::{
    AdapterFacts, PassWork, Preparation, Quarantined, RequestSetup, WindowReport,
};
use fanlight_messages::draft::Width;
use fanlight_messages::error::DeviceError;
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::program::{MatrixId, Program, VectorId};
use fanlight_messages::sampling::Sampling;

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

    /// Creates the pipelines of prompts and plain decoding and compares the two; calls `progress(done,
    /// total)` after each. What prompts must not use is returned: they are one token long then.
    fn compile(
        &mut self,
        progress: impl FnMut(u64, u64),
    ) -> impl Future<Output = Result<Option<Quarantined>, DeviceError>>;

    /// Creates one pipeline that steps of `width` need and that is new; compares them with plain decoding
    /// when there is none left.
    ///
    /// # Errors
    /// When the width is none that the device can run.
    fn prepare_next(&mut self, width: Width) -> impl Future<Output = Result<Preparation, DeviceError>>;

    /// Creates what choosing tokens needs, where that is new.
    fn prepare_sampling(&mut self, sampling: &Sampling) -> impl Future<Output = Result<(), DeviceError>>;

    /// Times choosing a token in the way of the last request, with nothing in flight: nanoseconds for a row.
    fn time_choice(&mut self) -> impl Future<Output = Result<u64, DeviceError>>;

    /// Resets the control block for a request.
    fn begin(&mut self, setup: &RequestSetup) -> Result<(), DeviceError>;

    /// Submits prompt `tokens` at positions `base..` in so many `parts`; with `choose` the first token of the
    /// reply is chosen.
    ///
    /// The submissions are made before this returns; the future resolves when their report is read back.
    fn prefill(
        &mut self,
        base: u32,
        tokens: &[u32],
        choose: bool,
        parts: u32,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError>;

    /// Submits a window of `steps` steps of a prepared width, like [`prefill`](Self::prefill). Only a single
    /// step is split.
    fn window(
        &mut self,
        steps: u32,
        width: Width,
        parts: u32,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError>;

    /// The same model for runs whose weights stream.
    type Streamed: StreamedModel;

    /// See [`StreamedModel`].
    ///
    /// # Errors
    /// When there is no model.
    fn streamed(&mut self) -> Result<&mut Self::Streamed, DeviceError>;
}

/// A model on a device, run in passes for which its weights arrive page by page.
pub trait StreamedModel: BackendModel {
    /// The page of a pass whose rows the ring takes next.
    fn arriving_page(&self) -> usize;

    /// Whether these are rows that the ring takes next, and their slot is free.
    fn has_room(&self, matrix: MatrixId, first_row: u64) -> bool;

    /// Uploads the rows of the embedding table that the next pass needs, in file format and in its order.
    fn upload_gathered(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), DeviceError>>;

    /// Drafts the next step; resolves to the tokens that it evaluates.
    fn draft(
        &mut self,
        width: Width,
    ) -> Result<impl Future<Output = Result<Vec<u32>, DeviceError>> + 'static, DeviceError>;

    /// Begins a pass.
    fn start_pass(&mut self, work: PassWork<'_>) -> Result<(), DeviceError>;

    /// Submits what can run of the pass: `None` when it waits for a page, else its report.
    fn continue_pass(
        &mut self,
    ) -> Result<Option<impl Future<Output = Result<WindowReport, DeviceError>> + 'static>, DeviceError>;
}
