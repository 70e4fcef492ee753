//! A GPU on which a width is wrong, and prompts are: replies are those of plain decoding all the same, which
//! is all that is used.

mod engine;

use std::rc::Rc;

use fanlight_actors::engine::start_engine;
use fanlight_actors::kit::{Clock, World};
use fanlight_gpu::{AdapterPreference, GpuBackend, Runner};
use fanlight_messages::TensorType;
use fanlight_messages::backend::Backend;
use fanlight_messages::device::{AdapterFacts, Purpose, Quarantined};
use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::error::DeviceError;
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::program::Program;
use fanlight_messages::protocol::engine::*;
use fanlight_tests::synth::{Architecture, tiny};

use engine::{load, reply};

/// The GPU, with findings that its comparisons did not make. What is in quarantine the model itself refuses
/// to run.
struct Suspicious(GpuBackend);

fn found(purpose: Purpose) -> Quarantined {
    Quarantined { purpose, evidence: "by the test".into() }
}

impl Backend for Suspicious {
    type Model = Runner;

    fn facts(&self) -> AdapterFacts {
        self.0.facts()
    }

    async fn reopen(&self) -> Result<(), DeviceError> {
        self.0.reopen().await
    }

    async fn create(&self, program: Rc<Program>, plan: Rc<GpuPlan>) -> Result<Runner, DeviceError> {
        let mut model = self.0.create(program, plan).await?;
        model.quarantine(found(Purpose::Prompts));
        // Tiny models make their trees of 2 and 8 nodes in one dispatch each, by different pipelines.
        model.quarantine(found(Purpose::Tree(8)));
        Ok(model)
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
