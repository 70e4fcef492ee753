//! The whole workload through the engine: ids and logits hash are those of plain decoding whatever the
//! width, with the largest logit and with draws and penalties, with session memory and without.
//!
//! `make test-models` runs it: every prompt where a GPU computes; the shortest of each class, and a few
//! tokens of each reply, on a processor, which takes a minute for a prompt.

mod engine;

use std::collections::BTreeSet;
use std::rc::Rc;

use fanlight_actors::engine::EngineHandle;
use fanlight_actors::kit::World;
use fanlight_messages::draft::{NODES_MAX, Width, WidthPolicy};
use fanlight_messages::protocol::engine::{ChatRole, ChatTurn, Generate, Load, Prompt, WallTime};
use fanlight_messages::protocol::memory::MemoryScope;
use fanlight_messages::sampling::{Sampling, SamplingOptions};
use fanlight_tests::goldens;
use fanlight_tests::workload::{Workload, WorkloadPrompt};

use engine::{load, reply};

const MODEL: &str = "smollm2-135m-instruct-q4_1.gguf";
/// The longest prompt of the workload fits with its reply.
const CONTEXT_LEN: u32 = 2048;
/// Tokens of a reply on a GPU: long enough that the controller changes its mind.
const TOKENS: u32 = 96;
/// Tokens of a reply on a processor.
const TOKENS_SOFTWARE: u32 = 5;
/// A template that prints the date prints the same one every time.
const NOW: WallTime = WallTime { year: 2026, month: 1, day: 2, hour: 3, minute: 4, second: 5 };

fn drawn() -> Rc<Sampling> {
    let options = SamplingOptions {
        temperature: 0.7,
        top_k: 100,
        top_p: 0.9,
        min_p: 0.01,
        repeat_penalty: 1.1,
        frequency_penalty: 0.1,
        presence_penalty: 0.1,
        logit_bias: vec![(30, 0.5)],
        seed: 4,
        ..SamplingOptions::default()
    };
    Rc::new(Sampling::new(options).unwrap())
}

fn request(prompt: &WorkloadPrompt, sampling: &Rc<Sampling>, tokens: u32) -> Generate {
    let turn = ChatTurn { role: ChatRole::User, content: prompt.message.clone() };
    let prompt = Prompt::Chat { turns: vec![turn], think: false, now: NOW };
    Generate { hash_logits: true, sampling: sampling.clone(), ..Generate::new(prompt, tokens) }
}

/// Every width and memory gives the reply that plain decoding gives; returns the tokens per step of `auto`.
async fn check(handle: &EngineHandle, plain: Generate, id: &str) -> f64 {
    let (ids, finished) = reply(handle, plain.clone()).await;
    let expected = (ids, finished.logits_hash);
    let auto = WidthPolicy::Auto { max: NODES_MAX };
    let fixed = WidthPolicy::Fixed(Width::Nodes(8));
    let mut tokens_per_step = 0.0;
    for (width, memory) in
        [(fixed, MemoryScope::Off), (auto, MemoryScope::Off), (auto, MemoryScope::Conversation)]
    {
        let (ids, finished) = reply(handle, Generate { width, memory, ..plain.clone() }).await;
        assert_eq!((ids, finished.logits_hash), expected, "{id}, {width:?}, {memory:?}");
        tokens_per_step = f64::from(finished.stats.decode_tokens) / f64::from(finished.stats.steps.max(1));
    }
    tokens_per_step
}

#[test]
fn every_width_gives_the_bits_of_plain_decoding_over_the_suite() {
    if !goldens::all_models_wanted() {
        return;
    }
    World::run(|world, _| async move {
        let path = goldens::model_path(MODEL);
        let bytes: Rc<[u8]> = std::fs::read(path).expect("run `make test-models` to fetch the models").into();
        let handle = engine::engine(&world).await;
        let loaded = load(&handle, &bytes, Load { context_len: Some(CONTEXT_LEN), ..Load::default() }).await;
        let is_software = loaded.adapter.kind.is_software();
        let mut prompts = Workload::load().unwrap();
        if is_software {
            prompts.sort_by_key(|prompt| prompt.message.len());
            let mut classes = BTreeSet::new();
            prompts.retain(|prompt| classes.insert(prompt.class));
        }
        let tokens = if is_software { TOKENS_SOFTWARE } else { TOKENS };
        for prompt in &prompts {
            for sampling in [Rc::default(), drawn()] {
                let rate = check(&handle, request(prompt, &sampling, tokens), &prompt.id).await;
                println!("{}: {rate:.2} tokens per step", prompt.id);
            }
        }
    });
}
