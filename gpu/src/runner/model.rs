//! The runner as the model of a back end: its errors leave with what was being done.

use std::future::Future;

use fanlight_messages::backend::{BackendModel, StreamedModel};
use fanlight_messages::device::{PassWork, Preparation, Quarantined, RequestSetup, WindowReport};
use fanlight_messages::draft::Width;
use fanlight_messages::error::DeviceError;
use fanlight_messages::program::{MatrixId, VectorId};
use fanlight_messages::sampling::Sampling;

use super::Runner;
use crate::device::{During, GpuError};

/// The same of what is read back later.
fn pending<T>(
    submitted: Result<impl Future<Output = Result<T, GpuError>> + 'static, GpuError>,
    phase: &'static str,
) -> Result<impl Future<Output = Result<T, DeviceError>> + 'static, DeviceError> {
    let pending = submitted.during(phase)?;
    Ok(async move { pending.await.during(phase) })
}

impl BackendModel for Runner {
    async fn upload_matrix(
        &mut self,
        matrix: MatrixId,
        first_row: u64,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        self.upload_rows(matrix, first_row, bytes).await.during("uploading weights")
    }

    fn upload_vector(
        &mut self,
        vector: VectorId,
        element_offset: u32,
        values: &[f32],
    ) -> Result<(), DeviceError> {
        self.write_vector(vector, element_offset, values).during("uploading constants")
    }

    async fn compile(&mut self, progress: impl FnMut(u64, u64)) -> Result<Option<Quarantined>, DeviceError> {
        self.compile_always(progress).await.during("compiling pipelines")
    }

    async fn prepare_next(&mut self, width: Width) -> Result<Preparation, DeviceError> {
        self.compile_next(width).await.during("compiling pipelines")
    }

    async fn prepare_sampling(&mut self, sampling: &Sampling) -> Result<(), DeviceError> {
        self.compile_sampling(sampling).await.during("compiling pipelines")
    }

    async fn time_choice(&mut self) -> Result<u64, DeviceError> {
        self.choice_ns().await.during("measuring")
    }

    fn begin(&mut self, setup: &RequestSetup) -> Result<(), DeviceError> {
        self.start_request(setup).during("beginning a request")
    }

    fn prefill(
        &mut self,
        base: u32,
        tokens: &[u32],
        choose: bool,
        parts: u32,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError> {
        let work = PassWork::Prompt { base, tokens, choose };
        pending(self.submit_pass(work, parts), "evaluating the prompt")
    }

    fn window(
        &mut self,
        steps: u32,
        width: Width,
        parts: u32,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError> {
        pending(self.submit_window(steps, width, parts), "decoding")
    }
}

impl StreamedModel for Runner {
    fn arriving_page(&self) -> usize {
        self.ring.arriving()
    }

    fn has_room(&self, matrix: MatrixId, first_row: u64) -> bool {
        self.ring.has_room(matrix, first_row)
    }

    async fn upload_gathered(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        self.upload_embeddings(bytes).await.during("uploading embedding rows")
    }

    fn draft(
        &mut self,
        width: Width,
    ) -> Result<impl Future<Output = Result<Vec<u32>, DeviceError>> + 'static, DeviceError> {
        pending(self.submit_draft(width), "drafting")
    }

    fn start_pass(&mut self, work: PassWork<'_>) -> Result<(), DeviceError> {
        self.begin_pass(work).during("starting a pass")
    }

    fn continue_pass(
        &mut self,
    ) -> Result<Option<impl Future<Output = Result<WindowReport, DeviceError>> + 'static>, DeviceError> {
        let phase = "running a pass";
        self.submit_ready().during(phase)?.map(|report| pending(Ok(report), phase)).transpose()
    }
}
