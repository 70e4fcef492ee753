//! Speculation on real models is lossless too: ways of width, window and memory against plain decoding, token
//! for token and hash for hash.
//!
//! Five ways run always, on SmolLM2. With `FANLIGHT_MODELS_ALL=1` every model speculates on prompts of the
//! workload too: in a cover of all pairs of width, window and memory on a GPU, in the five ways on a software
//! adapter.

use std::collections::BTreeSet;
use std::fs::File;
use std::rc::Rc;

use fanlight_gpu::{AdapterPreference, Device};
use fanlight_messages::device::RequestSetup;
use fanlight_messages::draft::{SEPARATOR, WIDTHS, Width};
use fanlight_messages::sampling::{Sampling, SamplingOptions};
use fanlight_models::text::{Special, Tokenizer};
use fanlight_tests::goldens;
use fanlight_tests::rig::{GreedyRun, Rig, RigOptions, Way, on_disk};
use fanlight_tests::workload::Workload;
use futures::executor::block_on;
use serde_json::Value;

const SMOLLM2: &str = "smollm2-135m-instruct-q4_1";
const MODELS: [&str; 3] = [SMOLLM2, "gemma-3-270m-q4_k_m", "qwen2.5-coder-0.5b-instruct-q4_k_m"];
/// Positions of every run: the longest prompt of the workload fits with its reply.
const CONTEXT_LEN: u32 = 2048;

/// Tokens of a reply that is always checked: a software adapter takes 0.6 s for a plain step and several for
/// a wide one.
const TOKENS: u32 = 6;
/// Tokens of a reply to a prompt of the workload, and how many of those are taken.
const WORKLOAD_TOKENS: u32 = 12;
const WORKLOAD_PROMPTS: usize = 4;

/// What drafts are made from besides the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// Nothing.
    None,
    /// The reply itself, behind the prompt: every draft is right.
    Reply,
    /// The reply with every third token replaced: drafts are right for a while.
    Spoiled,
}

impl Memory {
    const ALL: [Self; 3] = [Self::None, Self::Reply, Self::Spoiled];

    fn tokens(self, prompt: &[u32], reply: &[u32]) -> Rc<[u32]> {
        let mut memory: Vec<u32> = prompt.iter().chain(reply).copied().collect();
        if self == Self::Spoiled {
            let start = prompt.len();
            memory.iter_mut().skip(start + 2).step_by(3).for_each(|token| *token = prompt[0]);
        }
        memory.push(SEPARATOR);
        if self == Self::None { Rc::default() } else { memory.into() }
    }
}

/// Width, steps per window, memory.
type Speculation = (u32, u32, Memory);

/// The ways that are always checked: every width that drafts, every window and every memory.
const ALWAYS: [Speculation; 5] = [
    (2, 4, Memory::Reply),
    (4, 1, Memory::None),
    (8, 2, Memory::Spoiled),
    (16, 4, Memory::Reply),
    (32, 1, Memory::Reply),
];

/// Every pair of a width and a window, of a width and a memory, and of a window and a memory, in 18 runs.
fn pairwise() -> Vec<Speculation> {
    let of_width = |(n, width): (usize, u32)| {
        let run = move |(k, steps): (usize, u32)| (width, steps, Memory::ALL[(n + k) % Memory::ALL.len()]);
        [1, 2, 4].into_iter().enumerate().map(run)
    };
    WIDTHS.into_iter().enumerate().flat_map(of_width).collect()
}

fn load(model: &str) -> Rig {
    let device =
        block_on(Device::open(AdapterPreference::HighPerformance)).expect("a GPU adapter is required");
    let file = File::open(goldens::model_path(&format!("{model}.gguf")))
        .expect("run `make fetch` (SmolLM2) or `make test-models` to fetch the models");
    let options = RigOptions { context_len: CONTEXT_LEN, ..RigOptions::default() };
    Rig::load(&device, on_disk(file), options).unwrap()
}

fn setup(token_limit: u32, end_ids: &[u32]) -> RequestSetup {
    let end_ids = end_ids.to_vec();
    RequestSetup { context_len: CONTEXT_LEN, token_limit, hash_logits: true, end_ids, ..Default::default() }
}

fn accepted(run: &GreedyRun) -> u32 {
    run.steps.iter().map(|step| step.accepted).sum()
}

/// Each run equals plain decoding; the prompt is in the cache from the second run on. Returns the drafted
/// nodes that each accepted.
fn check(rig: &mut Rig, prompt: &[u32], request: &RequestSetup, all: &[Speculation]) -> Vec<u32> {
    let expected = rig.greedy(prompt, Way::default(), request).unwrap();
    assert!(!expected.ids.is_empty());
    let mut sums = Vec::new();
    for (width, steps, memory) in all {
        let base = prompt.len() as u32 - 1;
        let way = Way { base, steps: *steps, width: Width::Nodes(*width), ..Way::default() };
        let memory = memory.tokens(prompt, &expected.ids);
        let run = rig.greedy(prompt, way, &RequestSetup { memory, ..request.clone() }).unwrap();
        assert_eq!(run.bits(), expected.bits(), "{way:?}");
        sums.push(accepted(&run));
    }
    sums
}

fn golden_prompt(model: &str, name: &str) -> Vec<u32> {
    let golden = goldens::load(&format!("generate.{model}.json")).unwrap();
    let prompts = golden["prompts"].as_array().unwrap();
    let prompt = prompts.iter().find(|p| p["name"] == name).expect("the golden has this prompt");
    prompt["prompt_ids"].as_array().unwrap().iter().map(Value::as_u64).map(|id| id.unwrap() as u32).collect()
}

#[test]
fn the_cover_has_every_pair() {
    let all = pairwise();
    for width in WIDTHS {
        for steps in [1, 2, 4] {
            assert!(all.iter().any(|s| (s.0, s.1) == (width, steps)), "{width} {steps}");
        }
        for memory in Memory::ALL {
            assert!(all.iter().any(|s| (s.0, s.2) == (width, memory)), "{width} {memory:?}");
            for steps in [1, 2, 4] {
                assert!(all.iter().any(|s| (s.1, s.2) == (steps, memory)), "{steps} {memory:?}");
            }
        }
    }
}

/// Where the reply is remembered, wider trees accept something.
fn assert_drafts_count(all: &[Speculation], sums: &[u32]) {
    assert_eq!(all.len(), sums.len());
    for ((width, steps, memory), accepted) in all.iter().zip(sums) {
        if *memory == Memory::Reply {
            assert_eq!(*accepted > 0, *width > 1, "width {width}, windows of {steps}: {accepted}");
        }
    }
}

#[test]
fn smollm2_speculates_without_loss() {
    let prompt = golden_prompt(SMOLLM2, "code");
    let mut rig = load(SMOLLM2);
    let sums = check(&mut rig, &prompt, &setup(TOKENS, &[]), &ALWAYS);
    println!("{ALWAYS:?} accepted {sums:?}");
    assert_drafts_count(&ALWAYS, &sums);
    // And when tokens are drawn, with everything on.
    let options = SamplingOptions {
        temperature: 0.9,
        top_k: 200,
        top_p: 0.9,
        min_p: 0.01,
        repeat_penalty: 1.1,
        frequency_penalty: 0.1,
        presence_penalty: 0.1,
        seed: 8,
        ..SamplingOptions::default()
    };
    let sampling = Rc::new(Sampling::new(options).unwrap());
    let generated_from = prompt.len() as u32;
    let drawn = RequestSetup { sampling, generated_from, ..setup(2 * TOKENS, &[]) };
    let sums = check(&mut rig, &prompt, &drawn, &[(8, 2, Memory::Reply)]);
    assert!(sums[0] > 0, "drafts are accepted");
}

/// The shortest prompts of the workload in the model's ids, one of each page.
fn workload_prompts(tokenizer: &Tokenizer) -> Vec<Vec<u32>> {
    let mut prompts = Workload::load().unwrap();
    prompts.sort_by_key(|prompt| prompt.message.len());
    let mut pages = BTreeSet::new();
    prompts.retain(|prompt| pages.insert(prompt.page.clone()));
    let ids = |message: &str| tokenizer.encode_prompt(message, Special::Ignore);
    prompts.iter().take(WORKLOAD_PROMPTS).map(|prompt| ids(&prompt.message)).collect()
}

#[test]
fn every_model_speculates_without_loss_on_the_workload() {
    if !goldens::all_models_wanted() {
        return;
    }
    for model in MODELS {
        let mut rig = load(model);
        let tokenizer = Tokenizer::from_metadata(&rig.file.metadata).unwrap();
        let is_software = rig.runner.device().facts().kind.is_software();
        let all = if is_software { ALWAYS.to_vec() } else { pairwise() };
        for (n, prompt) in workload_prompts(&tokenizer).iter().enumerate() {
            let part: Vec<Speculation> = all.iter().copied().skip(n).step_by(WORKLOAD_PROMPTS).collect();
            let sums = check(&mut rig, prompt, &setup(WORKLOAD_TOKENS, tokenizer.end_ids()), &part);
            println!("{model}, {} prompt tokens: {part:?} accepted {sums:?}", prompt.len());
        }
    }
}
