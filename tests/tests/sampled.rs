//! Drawn replies: every width, window and draft gives the same ids, logits hash and end, with every option
//! on; and each token is the one that the reference draws from the model's logits.

use std::collections::BTreeSet;
use std::rc::Rc;

use fanlight_gpu::{AdapterPreference, Device};
use fanlight_messages::TensorType;
use fanlight_messages::backend::BackendModel;
use fanlight_messages::device::RequestSetup;
use fanlight_messages::draft::Width;
use fanlight_messages::sampling::{Sampling, SamplingOptions};
use fanlight_tests::reference::Draw;
use fanlight_tests::rig::{Rig, RigOptions, Way, in_memory, memory_right_for};
use fanlight_tests::synth::{Architecture, tiny};
use futures::executor::block_on;

const PROMPT_LEN: u32 = 20;

fn load(architecture: Architecture, tensor_type: TensorType) -> Rig {
    let device = block_on(Device::open(AdapterPreference::HighPerformance))
        .expect("a GPU adapter is required by this test");
    let bytes = tiny(architecture, tensor_type, 11).build().unwrap().to_bytes();
    Rig::load(&device, in_memory(bytes), RigOptions::default()).unwrap()
}

fn prompt() -> Vec<u32> {
    (0..PROMPT_LEN).map(|i| (i * 29 + 3) % 250).collect()
}

fn setup(options: &SamplingOptions, token_limit: u32) -> RequestSetup {
    RequestSetup {
        context_len: 512,
        token_limit,
        hash_logits: true,
        sampling: Rc::new(Sampling::new(options.clone()).unwrap()),
        generated_from: PROMPT_LEN,
        ..RequestSetup::default()
    }
}

/// Everything on: a low temperature lets the text repeat, so that penalties and drafts have something to do.
fn all_on() -> SamplingOptions {
    SamplingOptions {
        temperature: 0.4,
        top_k: 30,
        top_p: 0.95,
        min_p: 0.001,
        repeat_penalty: 1.1,
        repeat_window: 12,
        frequency_penalty: 0.05,
        presence_penalty: 0.1,
        logit_bias: vec![(7, 0.5), (9, -10_000.0)],
        seed: 1234,
    }
}

fn every_options() -> Vec<SamplingOptions> {
    let base = SamplingOptions::default();
    vec![
        all_on(),
        SamplingOptions { temperature: 1.0, seed: u64::MAX, ..base.clone() },
        // Greedy, but not the raw logits.
        SamplingOptions { repeat_penalty: 1.3, frequency_penalty: 0.2, ..base.clone() },
        SamplingOptions { temperature: 0.8, top_p: 0.7, presence_penalty: -0.5, ..base },
    ]
}

#[test]
fn every_width_window_and_draft_draws_the_same() {
    let mut rig = load(Architecture::Llama, TensorType::Q4_1);
    let prompt = prompt();
    let mut replies = BTreeSet::new();
    for (n, options) in every_options().iter().enumerate() {
        let request = setup(options, 20);
        let expected = rig.greedy(&prompt, Way::default(), &request).unwrap();
        assert_eq!(expected.ids.len(), 20);
        replies.insert(expected.ids.clone());
        let mut accepted = 0;
        for (k, (nodes, steps)) in [(1, 1), (8, 2), (32, 4), (8, 4), (32, 1), (8, 1)].into_iter().enumerate()
        {
            // The first options in every way, the others in a part of them.
            if n > 0 && k % 3 != n % 3 {
                continue;
            }
            let memory = memory_right_for(&prompt, &expected.ids, [usize::MAX, 2][k % 2]);
            let way = Way { steps, width: Width::Nodes(nodes), ..Way::default() };
            let run = rig.greedy(&prompt, way, &RequestSetup { memory, ..request.clone() }).unwrap();
            assert_eq!(run.bits(), expected.bits(), "{way:?}, {options:?}");
            accepted += run.steps.iter().map(|step| step.accepted).sum::<u32>();
        }
        assert!(accepted > 0, "drafts are accepted with {options:?}");
        // Measuring what the choice takes leaves nothing behind, even where a tree's rows wait to be copied.
        block_on(rig.runner.time_choice()).unwrap();
        for way in [Way { steps: 2, ..Way::default() }, Way { steps: 4, chunk: 7, ..Way::default() }] {
            let run = rig.greedy(&prompt, way, &request).unwrap();
            assert_eq!(run.bits(), expected.bits(), "{way:?}, {options:?}");
        }
    }
    let greedy = rig.greedy(&prompt, Way::default(), &setup(&SamplingOptions::default(), 20)).unwrap();
    replies.insert(greedy.ids);
    assert_eq!(replies.len(), 5, "options matter");
}

/// Report F08: an equal seed gives an equal reply, cold and warm; other seeds, the edges among them, others.
#[test]
fn f08_a_seed_gives_the_same_reply_again_and_others_differ() {
    let mut rig = load(Architecture::Qwen2, TensorType::Q4_0);
    let prompt = prompt();
    let mut run = |seed, base| {
        let options = SamplingOptions { temperature: 2.0, seed, ..SamplingOptions::default() };
        rig.greedy(&prompt, Way { base, ..Way::default() }, &setup(&options, 8)).unwrap()
    };
    let mut replies = BTreeSet::new();
    let seeds = [0, 1, 42, u64::from(u32::MAX), 1 << 32, 1 << 53, u64::MAX];
    for seed in seeds {
        let cold = run(seed, 0);
        let warm = run(seed, PROMPT_LEN - 1);
        assert_eq!(cold.bits(), warm.bits(), "seed {seed}");
        replies.insert(cold.ids);
    }
    assert_eq!(replies.len(), seeds.len());
}

/// Raw logits of the model, penalties, cuts and noise of the reference: token for token.
#[test]
fn every_token_is_the_one_that_the_reference_draws() {
    let mut rig = load(Architecture::Llama, TensorType::Q8_0);
    let prompt = prompt();
    for options in every_options() {
        let run = rig.greedy(&prompt, Way { steps: 4, ..Way::default() }, &setup(&options, 24)).unwrap();
        let all: Vec<u32> = prompt.iter().chain(&run.ids).copied().collect();
        let mut rows = Vec::new();
        rig.runner.begin(&setup(&SamplingOptions::default(), 1)).unwrap();
        for (n, tokens) in all.chunks(32).enumerate() {
            let logits = block_on(rig.runner.score(32 * n as u32, tokens)).unwrap();
            rows.extend(logits.chunks_exact(logits.len() / tokens.len()).map(<[f32]>::to_vec));
        }
        for at in prompt.len()..all.len() {
            let draw = Draw::new(&rows[at - 1], &all[..at], prompt.len(), &options);
            draw.check(all[at]).unwrap_or_else(|why| panic!("position {at}: {why}; {options:?}"));
        }
    }
}

/// What a lost device leaves to do: the reply goes on from what was said, as if it had not been interrupted.
#[test]
fn a_reply_that_is_resumed_goes_on_as_it_would_have() {
    let mut rig = load(Architecture::Gemma3, TensorType::Q4_0);
    let prompt = prompt();
    let request = setup(&all_on(), 20);
    let whole = rig.greedy(&prompt, Way::default(), &request).unwrap();
    let said: Vec<u32> = prompt.iter().chain(&whole.ids[..9]).copied().collect();
    let rest = RequestSetup { token_limit: 11, hash: whole.hashes[8], ..request };
    for width in [Width::Off, Width::Nodes(8)] {
        let resumed = rig.greedy(&said, Way { width, chunk: 8, ..Way::default() }, &rest).unwrap();
        assert_eq!((&resumed.ids[..], resumed.hash), (&whole.ids[9..], whole.hash), "{width:?}");
    }
}
