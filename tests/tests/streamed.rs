//! Models whose weights stream give the bits of resident ones, under every budget, with and without drafts.

mod engine;

use std::rc::Rc;

use fanlight_actors::engine::EngineHandle;
use fanlight_actors::kit::World;
use fanlight_messages::TensorType;
use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::layout::{PagePlanes, ResidentFormat};
use fanlight_messages::plan::{Budget, BufferOwner, KvFormat, PlanRequest};
use fanlight_messages::protocol::engine::*;
use fanlight_messages::sampling::{Sampling, SamplingOptions};
use fanlight_pager::plan_minimum;
use fanlight_tests::rig::{in_memory, open};
use fanlight_tests::synth::{Architecture, tiny};

use engine::{load, reply};

const PAGE_BYTES: u64 = 4 << 20;

/// With drafts and without; `auto` also speculates, on passes that it cannot measure before.
const WIDTHS: [WidthPolicy; 3] =
    [WidthPolicy::Fixed(Width::Off), WidthPolicy::Fixed(Width::Nodes(8)), WidthPolicy::Auto { max: 8 }];

fn request(len: u32, width: WidthPolicy) -> Generate {
    let ids: Vec<u32> = (0..len).map(|i| (i * 29 + 3) % 250).collect();
    Generate { width, hash_logits: true, ..Generate::new(Prompt::Ids(ids.into()), 14) }
}

/// What is compared of a conversation: its second turn goes on from the first, the others do not, and the
/// last is drawn.
async fn replies(handle: &EngineHandle, width: WidthPolicy) -> Vec<(Vec<u32>, Option<u32>)> {
    let mut all = Vec::new();
    let drawn = SamplingOptions {
        temperature: 1.0,
        top_k: 20,
        frequency_penalty: 0.5,
        seed: 7,
        ..SamplingOptions::default()
    };
    let sampling = Rc::new(Sampling::new(drawn).unwrap());
    for (len, sampling) in [(70, None), (90, None), (3, None), (40, Some(sampling))] {
        let request = request(len, width);
        let sampling = sampling.unwrap_or_else(|| request.sampling.clone());
        let (ids, finished) = reply(handle, Generate { sampling, ..request }).await;
        assert_eq!(ids.len(), 14);
        all.push((ids, finished.logits_hash));
    }
    all
}

/// The least budget of a model, and the bytes of its weights as the device holds them.
fn bounds(bytes: &[u8], load: &Load) -> (u64, u64) {
    let program = open(in_memory(bytes)).unwrap().program;
    let request = PlanRequest {
        context_len: load.context_len.unwrap(),
        batch_tokens: load.batch_tokens,
        logits_rows: 32,
        kv_format: load.kv_format,
        binding_bytes_max: 128 << 20,
    };
    let repacked = program.matrices.iter().map(|spec| {
        PagePlanes::new(ResidentFormat::of(spec.tensor_type), spec.rows, spec.columns).total_bytes
    });
    (plan_minimum(&program, request, PAGE_BYTES).unwrap(), repacked.sum())
}

fn check(architecture: Architecture, tensor_type: TensorType, kv_format: KvFormat, percents: &[u64]) {
    World::run(|world, _| async move {
        let bytes: Rc<[u8]> = tiny(architecture, tensor_type, 5).build().unwrap().to_bytes().into();
        let resident = Load { context_len: Some(512), batch_tokens: 64, kv_format, ..Load::default() };
        let (least, weights) = bounds(&bytes, &resident);
        let handle = engine::engine(&world).await;
        load(&handle, &bytes, resident.clone()).await;
        let expected = replies(&handle, WidthPolicy::default()).await;
        for percent in percents {
            let budget = Budget { bytes: least + weights * percent / 100, page_bytes: PAGE_BYTES };
            let within = Load { budget: Some(budget), ..resident.clone() };
            let loaded = load(&handle, &bytes, within).await;
            assert!(loaded.gpu_bytes <= budget.bytes, "{} of {}", loaded.gpu_bytes, budget.bytes);
            let stays = |owner| matches!(owner, BufferOwner::Page { .. });
            println!(
                "{architecture:?} {percent} %: {} of {weights} weight bytes stay, {:?}",
                loaded.plan.bytes_where(stays),
                loaded.plan.stream.as_ref().map(|stream| stream.pages.len())
            );
            match *percent {
                0 => assert!(loaded.plan.bytes_where(stays) == 0, "nothing fits beside the least"),
                100 => assert!(loaded.plan.stream.is_none(), "everything fits"),
                _ => {}
            }
            for width in WIDTHS {
                let streamed = replies(&handle, width).await;
                assert_eq!(streamed, expected, "{architecture:?}, {percent} %, {width:?}");
            }
        }
    });
}

#[test]
fn an_untied_model_whose_embedding_rows_are_gathered() {
    check(Architecture::Llama, TensorType::Q4_1, KvFormat::F16, &[0, 25, 50, 75, 100]);
}

#[test]
fn tied_models_of_other_architectures() {
    check(Architecture::Gemma3, TensorType::Q6K, KvFormat::F16, &[0, 50, 100]);
    check(Architecture::Qwen3, TensorType::Q8_0, KvFormat::F32, &[25, 75]);
    check(Architecture::Qwen2, TensorType::F16, KvFormat::F16, &[0]);
}
