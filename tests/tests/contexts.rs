//! Contexts of 4,096 and 32,768 positions on tiny models: batches, trees and the last position.

use fanlight_gpu::{AdapterPreference, Device};
use fanlight_messages::TensorType;
use fanlight_messages::device::RequestSetup;
use fanlight_messages::draft::Width;
use fanlight_tests::rig::{Rig, RigOptions, Way, in_memory};
use fanlight_tests::synth::{Architecture, tiny};
use futures::executor::block_on;

fn load(architecture: Architecture, context_len: u32) -> Rig {
    let device = block_on(Device::open(AdapterPreference::HighPerformance))
        .expect("a GPU adapter is required by this test");
    let mut model = tiny(architecture, TensorType::Q4_0, 11);
    model.shape.context_len = context_len;
    // Every head looks at every position: few heads, and only the layers that an architecture needs.
    (model.shape.query_heads, model.shape.kv_heads) = (2, 1);
    if architecture != Architecture::Gemma3 {
        model.shape.layers = 1;
    }
    let bytes = model.build().unwrap().to_bytes();
    let options = RigOptions { context_len, ..RigOptions::default() };
    Rig::load(&device, in_memory(bytes), options).unwrap()
}

fn setup(context_len: u32) -> RequestSetup {
    RequestSetup { context_len, token_limit: 64, hash_logits: true, ..RequestSetup::default() }
}

/// Phrases that return, so that drafts have something to match.
fn text(len: u32) -> Vec<u32> {
    (0..len).map(|i| (i / 60 * 7 + i % 60 * (i / 700 % 3 + 1)) % 250).collect()
}

/// Evaluating a whole long prompt takes a processor minutes, so only a stretch at each end of the cache is:
/// the rows between are as they were created, which all ways see alike.
fn check(architecture: Architecture, context: u32) {
    let mut rig = load(architecture, context);
    let prompt = text(context - 10);
    let start = |rig: &mut Rig, prompt: &[u32]| {
        let one = RequestSetup { token_limit: 1, ..setup(context) };
        rig.greedy(&prompt[..100], Way::default(), &one).unwrap();
    };
    start(&mut rig, &prompt);
    let base = context - 100;
    let expected = rig.greedy(&prompt, Way { base, ..Way::default() }, &setup(context)).unwrap();
    // Ten positions are left: eleven tokens come out, the last of them has no position.
    assert_eq!((expected.ids.len(), expected.end), (11, 3), "{architecture:?}");
    let ways = [
        Way { base, chunk: 50, steps: 4, ..Way::default() },
        Way { base: base + 47, chunk: 8, steps: 2, width: Width::Nodes(8), ..Way::default() },
        Way { base: context - 11, width: Width::Nodes(32), ..Way::default() },
    ];
    for way in ways {
        let run = rig.greedy(&prompt, way, &setup(context)).unwrap();
        assert_eq!(run.bits(), expected.bits(), "{architecture:?}, {way:?}");
    }
    // Another token far back changes the logits: the whole cache is seen.
    let mut other = prompt.clone();
    other[3] = 249 - other[3];
    start(&mut rig, &other);
    let run = rig.greedy(&other, Way { base, ..Way::default() }, &setup(context)).unwrap();
    assert_ne!(run.hash, expected.hash);
}

#[test]
fn four_thousand_positions_are_reached_and_filled() {
    check(Architecture::Gemma3, 4096);
    check(Architecture::Qwen2, 4096);
}

#[test]
fn thirty_two_thousand_positions_are_reached_and_filled() {
    check(Architecture::Llama, 32_768);
}
