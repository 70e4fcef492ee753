//! Real models whose weights stream give the bits of resident ones: SmolLM2 always, with
//! `FANLIGHT_MODELS_ALL=1` the larger models too.

mod engine;

use std::rc::Rc;

use fanlight_actors::kit::World;
use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::plan::{Budget, PlanRequest};
use fanlight_messages::protocol::engine::*;
use fanlight_pager::{plan_minimum, plan_resident};
use fanlight_tests::goldens;
use fanlight_tests::rig::{in_memory, open};

use engine::{load, reply};

/// Pages small enough that matrices are cut.
const PAGE_BYTES: u64 = 4 << 20;
/// Tokens of a reply: a software adapter takes half a second for a pass.
const TOKENS: u32 = 5;
/// No wider than the fixed width beside it, whose pipelines it then uses.
const AUTO: WidthPolicy = WidthPolicy::Auto { max: 8 };

fn check(model: &str) {
    World::run(|world, _| async move {
        let path = goldens::model_path(&format!("{model}.gguf"));
        let bytes: Rc<[u8]> = std::fs::read(path)
            .expect("run `make fetch` (SmolLM2) or `make test-models` to fetch the models")
            .into();
        let resident = Load { context_len: Some(256), batch_tokens: 32, ..Load::default() };
        let program = open(in_memory(bytes.clone())).unwrap().program;
        let request = PlanRequest {
            context_len: 256,
            batch_tokens: 32,
            logits_rows: 32,
            kv_format: resident.kv_format,
            binding_bytes_max: 128 << 20,
        };
        let least = plan_minimum(&program, request, PAGE_BYTES).unwrap();
        let whole = plan_resident(&program, request).unwrap();
        let weights =
            whole.bytes_where(|owner| matches!(owner, fanlight_messages::plan::BufferOwner::Page { .. }));
        let handle = engine::engine(&world).await;
        let prompt = Prompt::Raw("The capital of France is Paris. The capital of Italy is".into());
        let ask = |width| Generate {
            width,
            hash_logits: true,
            reuse_prefix: false,
            ..Generate::new(prompt.clone(), TOKENS)
        };
        load(&handle, &bytes, resident.clone()).await;
        let (expected, finished) = reply(&handle, ask(WidthPolicy::default())).await;
        assert!(!expected.is_empty());
        for percent in [0, 25, 50, 75, 100] {
            let budget = Budget { bytes: least + weights * percent / 100, page_bytes: PAGE_BYTES };
            let loaded = load(&handle, &bytes, Load { budget: Some(budget), ..resident.clone() }).await;
            assert!(loaded.gpu_bytes <= budget.bytes);
            // Pages cut small take a little more than the whole: one of them may be left over.
            let streams = loaded.plan.stream.as_ref().map_or(0, |stream| stream.pages.len());
            assert_eq!(streams <= 1, percent == 100, "{streams} pages stream at {percent} %");
            for width in [WidthPolicy::default(), WidthPolicy::Fixed(Width::Nodes(8)), AUTO] {
                let (ids, streamed) = reply(&handle, ask(width)).await;
                let (bits, wanted) = ((ids, streamed.logits_hash), (&expected, finished.logits_hash));
                assert_eq!((&bits.0, bits.1), wanted, "{model}, {percent} %, {width:?}");
            }
        }
    });
}

#[test]
fn smollm2_streams_without_moving_a_bit() {
    check("smollm2-135m-instruct-q4_1");
}

#[test]
fn larger_models_stream_without_moving_a_bit() {
    if std::env::var_os("FANLIGHT_MODELS_ALL").is_some() {
        check("gemma-3-270m-q4_k_m");
        check("qwen2.5-coder-0.5b-instruct-q4_k_m");
    }
}
