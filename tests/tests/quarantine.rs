//! A GPU on which a width is wrong, and prompts are: replies are those of plain decoding all the same, which
//! is all that is used.

mod engine;

use std::future::Future;
use std::rc::Rc;

use fanlight_actors::backend::{Backend, BackendModel};
use fanlight_actors::engine::start_engine;
use fanlight_actors::gpu_backend::{AdapterPreference, GpuBackend};
use fanlight_actors::kit::{Clock, World};
use fanlight_gpu::Runner;
use fanlight_messages::TensorType;
use fanlight_messages::device::{
    AdapterFacts, Preparation, Purpose, Quarantined, RequestSetup, WindowReport,
};
use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::error::DeviceError;
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::program::{MatrixId, Program, VectorId};
use fanlight_messages::protocol::engine::*;
use fanlight_messages::sampling::Sampling;
use fanlight_tests::synth::{Architecture, tiny};

use engine::{load, reply};

/// The GPU, with findings that its comparisons did not make.
struct Suspicious(GpuBackend);

/// A model on it.
struct SuspiciousModel(Runner);

fn found(purpose: Purpose) -> Quarantined {
    Quarantined { purpose, evidence: "by the test".into() }
}

impl Backend for Suspicious {
    type Model = SuspiciousModel;

    fn facts(&self) -> AdapterFacts {
        self.0.facts()
    }

    async fn reopen(&self) -> Result<(), DeviceError> {
        self.0.reopen().await
    }

    async fn create(&self, program: Rc<Program>, plan: Rc<GpuPlan>) -> Result<SuspiciousModel, DeviceError> {
        let mut model = self.0.create(program, plan).await?;
        // Tiny models make their trees of 2 and 8 nodes in one dispatch each, by different pipelines.
        model.quarantine(found(Purpose::Tree(8)));
        Ok(SuspiciousModel(model))
    }
}

impl BackendModel for SuspiciousModel {
    async fn upload_matrix(
        &mut self,
        matrix: MatrixId,
        first_row: u64,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        BackendModel::upload_matrix(&mut self.0, matrix, first_row, bytes).await
    }

    fn upload_vector(
        &mut self,
        vector: VectorId,
        element_offset: u32,
        values: &[f32],
    ) -> Result<(), DeviceError> {
        BackendModel::upload_vector(&mut self.0, vector, element_offset, values)
    }

    async fn compile(&mut self, progress: impl FnMut(u64, u64)) -> Result<Option<Quarantined>, DeviceError> {
        assert_eq!(BackendModel::compile(&mut self.0, progress).await?, None);
        self.0.quarantine(found(Purpose::Prompts));
        Ok(Some(found(Purpose::Prompts)))
    }

    async fn prepare_next(&mut self, width: Width) -> Result<Preparation, DeviceError> {
        BackendModel::prepare_next(&mut self.0, width).await
    }

    async fn prepare_sampling(&mut self, sampling: &Sampling) -> Result<(), DeviceError> {
        BackendModel::prepare_sampling(&mut self.0, sampling).await
    }

    fn begin(&mut self, setup: &RequestSetup) -> Result<(), DeviceError> {
        BackendModel::begin(&mut self.0, setup)
    }

    fn prefill(
        &mut self,
        base: u32,
        tokens: &[u32],
        choose: bool,
        parts: u32,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError> {
        BackendModel::prefill(&mut self.0, base, tokens, choose, parts)
    }

    fn window(
        &mut self,
        steps: u32,
        width: Width,
        parts: u32,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError> {
        assert!(!matches!(width, Width::Nodes(8..)), "{width:?} is quarantined");
        BackendModel::window(&mut self.0, steps, width, parts)
    }

    type Streamed = Runner;

    fn streamed(&mut self) -> Result<&mut Runner, DeviceError> {
        Ok(&mut self.0)
    }
}

fn request(width: WidthPolicy) -> Generate {
    let prompt: Vec<u32> = (0..40).map(|i| 20 + i % 9).collect();
    Generate { hash_logits: true, width, ..Generate::new(Prompt::Ids(prompt.into()), 24) }
}

#[test]
fn what_is_quarantined_is_not_used_and_changes_no_bit() {
    let bytes: Rc<[u8]> = tiny(Architecture::Qwen2, TensorType::Q4_0, 5).build().unwrap().to_bytes().into();
    let options = || Load { context_len: Some(256), batch_tokens: 16, ..Load::default() };
    let widths = [Width::Off, Width::Nodes(2), Width::Nodes(8)].map(WidthPolicy::Fixed);
    let right = World::run(|world, _| async move {
        let handle = engine::engine(&world).await;
        assert_eq!(load(&handle, &bytes, options()).await.quarantined, None);
        let (ids, finished) = reply(&handle, request(widths[0])).await;
        assert_eq!(finished.quarantined, []);
        (bytes, ids, finished.logits_hash)
    });
    let (bytes, ids, hash) = right;
    World::run(|world, _| async move {
        let gpu = GpuBackend::open(AdapterPreference::HighPerformance).await;
        let backend = Suspicious(gpu.expect("a GPU adapter is required"));
        let handle = start_engine(&world, backend, Clock::real());
        let loaded = load(&handle, &bytes, options()).await;
        assert_eq!(loaded.quarantined, Some(found(Purpose::Prompts)));
        for width in widths {
            handle.reset().await.unwrap();
            let (got, finished) = reply(&handle, request(width)).await;
            assert_eq!((&got, finished.logits_hash), (&ids, hash), "{width:?}");
            let is_wrong = width == WidthPolicy::Fixed(Width::Nodes(8));
            assert_eq!(finished.quarantined.len(), usize::from(is_wrong), "{width:?}");
        }
    });
}
