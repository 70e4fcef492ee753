//! Where models are placed: through the submitter, or on a device that the caller owns.

use std::rc::Rc;

use fanlight_messages::backend::{Backend, BackendModel};
use fanlight_messages::bytes::SharedBytes;
use fanlight_messages::device::Quarantined;
use fanlight_messages::error::{DeviceError, LoadError};
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::program::{MatrixId, Program, VectorId};
use fanlight_messages::protocol::engine::{LoadPhase, LoadProgress};
use fanlight_messages::protocol::submitter::{CompilePipelines, CreateModel, UploadMatrix, UploadVector};
use fanlight_messages::protocol::telemetry::RecordSample;

use super::place::Site;
use super::shell::PagerLinks;
use crate::kit::{Gone, Latch};
use crate::submitter::SubmitterMail;

pub(super) fn gone(_: Gone) -> LoadError {
    LoadError::EngineGone { actor: "submitter" }
}

/// The submitter's device.
pub(super) struct SubmitterSite<'a> {
    links: &'a PagerLinks,
    landed_us: u64,
}

impl<'a> SubmitterSite<'a> {
    pub(super) fn new(links: &'a PagerLinks) -> Self {
        Self { links, landed_us: 0 }
    }
}

impl Site for SubmitterSite<'_> {
    async fn create(&mut self, program: &Rc<Program>, plan: &Rc<GpuPlan>) -> Result<(), LoadError> {
        let create = CreateModel { program: program.clone(), plan: plan.clone() };
        self.links.submitter.ask(create).await.map_err(gone)??;
        self.landed_us = self.links.clock.now_us();
        Ok(())
    }

    async fn upload_matrix(
        &mut self,
        matrix: MatrixId,
        first_row: u64,
        bytes: SharedBytes,
    ) -> Result<(), LoadError> {
        let request = UploadMatrix { matrix, first_row, bytes };
        self.links.submitter.ask(request).await.map_err(gone)??;
        Ok(())
    }

    async fn upload_vector(
        &mut self,
        vector: VectorId,
        element_offset: u32,
        values: Vec<f32>,
    ) -> Result<(), LoadError> {
        let request = UploadVector { vector, element_offset, values };
        Ok(self.links.submitter.ask(request).await.map_err(gone)??)
    }

    fn landed(&mut self, bytes: u64) {
        let now_us = self.links.clock.now_us();
        let elapsed_us = now_us.saturating_sub(self.landed_us);
        self.links.telemetry.record(RecordSample::Upload { bytes, elapsed_us });
        self.landed_us = now_us;
    }

    async fn compile(&mut self, progress: &Latch<LoadProgress>) -> Result<Option<Quarantined>, LoadError> {
        let compile = |asked| SubmitterMail::Compile(asked, progress.clone());
        Ok(self.links.submitter.ask_with(CompilePipelines, compile).await.map_err(gone)??)
    }
}

/// A device without actors, for what measures or tests it.
pub struct OwnDevice<'a, B: Backend> {
    backend: &'a B,
    model: Option<B::Model>,
}

impl<'a, B: Backend> OwnDevice<'a, B> {
    /// Nothing is placed on it yet.
    pub fn new(backend: &'a B) -> Self {
        Self { backend, model: None }
    }

    /// The model that was placed.
    ///
    /// # Errors
    /// When none was.
    pub fn model(&mut self) -> Result<&mut B::Model, DeviceError> {
        self.model.as_mut().ok_or(DeviceError::NoModel)
    }

    /// The same to keep.
    ///
    /// # Errors
    /// As [`model`](Self::model).
    pub fn into_model(self) -> Result<B::Model, DeviceError> {
        self.model.ok_or(DeviceError::NoModel)
    }
}

impl<B: Backend> Site for OwnDevice<'_, B> {
    async fn create(&mut self, program: &Rc<Program>, plan: &Rc<GpuPlan>) -> Result<(), LoadError> {
        self.model = Some(self.backend.create(program.clone(), plan.clone()).await?);
        Ok(())
    }

    async fn upload_matrix(
        &mut self,
        matrix: MatrixId,
        first_row: u64,
        bytes: SharedBytes,
    ) -> Result<(), LoadError> {
        Ok(self.model()?.upload_matrix(matrix, first_row, &bytes).await?)
    }

    async fn upload_vector(
        &mut self,
        vector: VectorId,
        element_offset: u32,
        values: Vec<f32>,
    ) -> Result<(), LoadError> {
        Ok(self.model()?.upload_vector(vector, element_offset, &values)?)
    }

    async fn compile(&mut self, progress: &Latch<LoadProgress>) -> Result<Option<Quarantined>, LoadError> {
        let pipelines = |done, total| progress.set(LoadProgress { phase: LoadPhase::Pipelines, done, total });
        Ok(self.model()?.compile(pipelines).await?)
    }
}
