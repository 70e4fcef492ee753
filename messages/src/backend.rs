//! What computes, as the submitter sees it: a GPU, a processor, or the scripted device of a simulation.
//!
//! Back ends implement these traits and import this room only; actors are generic over them. A trait that
//! returns futures needs no runtime.

use std::future::{Future, Ready};
use std::rc::Rc;

use crate::device::{AdapterFacts, PassWork, Preparation, Quarantined, RequestSetup, WindowReport};
use crate::draft::Width;
use crate::error::DeviceError;
use crate::plan::GpuPlan;
use crate::program::{MatrixId, Program, VectorId};
use crate::sampling::Sampling;

/// A device that can hold one model.
pub trait Backend: 'static {
    /// A model on it; dropping it frees its buffers.
    type Model: StreamedModel;

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
    /// When the device refuses a buffer, or a plan whose weights stream and it cannot; nothing stays behind.
    fn create(
        &self,
        program: Rc<Program>,
        plan: Rc<GpuPlan>,
    ) -> impl Future<Output = Result<Self::Model, DeviceError>>;
}

/// A model on a device. After an error nothing of it can be trusted but that dropping it frees its buffers.
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

    /// Waits for the uploads, creates the pipelines of prompts and plain decoding and compares the two; calls
    /// `progress(done, total)` after each. What prompts must not use is returned: they are one token long
    /// then.
    fn compile(
        &mut self,
        progress: impl FnMut(u64, u64),
    ) -> impl Future<Output = Result<Option<Quarantined>, DeviceError>>;

    /// Creates one pipeline that steps of `width` need and that is new; compares them with plain decoding
    /// when there is none left.
    ///
    /// # Errors
    /// When the device cannot run steps of this width.
    fn prepare_next(&mut self, width: Width) -> impl Future<Output = Result<Preparation, DeviceError>>;

    /// Creates what choosing tokens needs, where that is new.
    fn prepare_sampling(&mut self, sampling: &Sampling) -> impl Future<Output = Result<(), DeviceError>>;

    /// Times choosing a token in the way of the last request, with nothing in flight: nanoseconds for a row.
    fn time_choice(&mut self) -> impl Future<Output = Result<u64, DeviceError>>;

    /// Starts a request: end ids, limits, session memory, sampling. The cache keeps its rows.
    fn begin(&mut self, setup: &RequestSetup) -> Result<(), DeviceError>;

    /// Submits prompt `tokens` at positions `base..` in about `parts` parts; with `choose` the first token of
    /// the reply is chosen.
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
}

/// A model whose weights arrive page by page, run in passes. A back end that cannot stream refuses such a plan
/// in [`Backend::create`] and takes the bodies that are here.
pub trait StreamedModel: BackendModel {
    /// The page of a pass whose rows the ring takes next.
    fn arriving_page(&self) -> usize {
        0
    }

    /// Whether these are rows that the ring takes next, and their slot is free.
    fn has_room(&self, matrix: MatrixId, first_row: u64) -> bool {
        let _ = (matrix, first_row);
        false
    }

    /// Uploads the rows of the embedding table that the next pass needs, in file format and in its order.
    fn upload_gathered(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), DeviceError>> {
        let _ = bytes;
        std::future::ready(Err(cannot_stream()))
    }

    /// Drafts the next step; resolves to the tokens that it evaluates.
    fn draft(
        &mut self,
        width: Width,
    ) -> Result<impl Future<Output = Result<Vec<u32>, DeviceError>> + 'static, DeviceError> {
        let _ = width;
        Err::<Ready<_>, _>(cannot_stream())
    }

    /// Begins a pass.
    fn start_pass(&mut self, work: PassWork<'_>) -> Result<(), DeviceError> {
        let _ = work;
        Err(cannot_stream())
    }

    /// Submits what can run of the pass: `None` when it waits for a page, else its report.
    fn continue_pass(
        &mut self,
    ) -> Result<Option<impl Future<Output = Result<WindowReport, DeviceError>> + 'static>, DeviceError> {
        Err::<Option<Ready<_>>, _>(cannot_stream())
    }
}

fn cannot_stream() -> DeviceError {
    let reason = "this device runs models only whose weights it holds".into();
    DeviceError::Refused { phase: "running a pass".into(), reason }
}
