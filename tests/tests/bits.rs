//! The bits of a run do not depend on windows, batches, prefixes, head groups or page cuts.

use fanlight_gpu::{AdapterPreference, Device};
use fanlight_messages::TensorType;
use fanlight_messages::device::RequestSetup;
use fanlight_messages::draft::Width;
use fanlight_messages::plan::KvFormat;
use fanlight_tests::rig::{GreedyRun, Rig, RigOptions, Way, in_memory};
use fanlight_tests::synth::{Architecture, tiny};
use futures::executor::block_on;

fn device() -> Device {
    block_on(Device::open(AdapterPreference::HighPerformance))
        .expect("a GPU adapter is required by this test")
}

fn setup(token_limit: u32) -> RequestSetup {
    RequestSetup { context_len: 512, token_limit, hash_logits: true, ..RequestSetup::default() }
}

fn prompt(len: u32) -> Vec<u32> {
    (0..len).map(|i| (i * 29 + 3) % 250).collect()
}

fn model(architecture: Architecture, tensor_type: TensorType) -> Vec<u8> {
    tiny(architecture, tensor_type, 11).build().unwrap().to_bytes()
}

fn load(device: &Device, bytes: &[u8], options: RigOptions) -> Rig {
    Rig::load(device, in_memory(bytes), options).unwrap()
}

/// Every way to the same tokens gives `expected`.
fn check_all_ways(rig: &mut Rig, prompt: &[u32], expected: &GreedyRun) {
    for chunk in [1, 7, 32, 512] {
        for steps in [1, 2, 4] {
            let run = rig.greedy(prompt, Way { chunk, steps, ..Way::default() }, &setup(12)).unwrap();
            assert_eq!(run.bits(), expected.bits(), "chunks of {chunk}, windows of {steps}");
        }
    }
    // Split between layers, into as many submissions as there are ops and into fewer.
    for parts in [2, 5, u32::MAX] {
        for width in [Width::Off, Width::Nodes(4)] {
            let run =
                rig.greedy(prompt, Way { parts, width, chunk: 33, ..Way::default() }, &setup(12)).unwrap();
            assert_eq!(run.bits(), expected.bits(), "{parts} parts, {width:?}");
        }
    }
    // The cache holds the prompt now: a reused prefix of any length.
    for base in [1, 33, prompt.len() as u32 - 1] {
        let run = rig.greedy(prompt, Way { base, steps: 4, ..Way::default() }, &setup(12)).unwrap();
        assert_eq!(run.bits(), expected.bits(), "prefix of {base} reused");
    }
}

#[test]
fn windows_batches_and_prefixes_do_not_move_a_bit() {
    let device = device();
    for (architecture, tensor_type, kv_format) in [
        (Architecture::Llama, TensorType::Q4_1, KvFormat::F16),
        (Architecture::Gemma3, TensorType::Q6K, KvFormat::F16),
        (Architecture::Qwen2, TensorType::F16, KvFormat::F32),
    ] {
        let bytes = model(architecture, tensor_type);
        let mut rig = load(&device, &bytes, RigOptions { kv_format, ..RigOptions::default() });
        let prompt = prompt(70);
        let expected = rig.greedy(&prompt, Way::default(), &setup(12)).unwrap();
        assert_eq!(expected.ids.len(), 12);
        check_all_ways(&mut rig, &prompt, &expected);
        // Another prompt has another hash: the comparison can fail.
        let other = rig.greedy(&prompt[1..], Way::default(), &setup(12)).unwrap();
        assert_ne!(other.hash, expected.hash);
    }
}

#[test]
fn prompts_of_every_small_length_run_on_what_a_load_compiles() {
    let device = device();
    for kv_heads in [4, 2] {
        let mut model = tiny(Architecture::Llama, TensorType::Q4_0, 11);
        model.shape.kv_heads = kv_heads;
        let mut rig = load(&device, &model.build().unwrap().to_bytes(), RigOptions::default());
        for len in 1..=9 {
            let whole = rig.greedy(&prompt(len), Way::default(), &setup(2)).unwrap();
            let single = rig.greedy(&prompt(len), Way { chunk: 1, ..Way::default() }, &setup(2)).unwrap();
            assert_eq!(whole.bits(), single.bits(), "{kv_heads} KV heads, {len} tokens");
        }
    }
}

#[test]
fn d01_a_small_binding_limit_cuts_pages_and_head_groups_without_moving_a_bit() {
    let device = device();
    let mut wide = tiny(Architecture::Llama, TensorType::F32, 11);
    wide.shape.ffn_len = 416;
    let bytes = wide.build().unwrap().to_bytes();
    let prompt = prompt(20);
    let options = RigOptions {
        context_len: 2048,
        batch_tokens: 8,
        logits_rows: 1,
        kv_format: KvFormat::F32,
        ..RigOptions::default()
    };
    let way = Way { chunk: 8, steps: 2, ..Way::default() };
    let mut whole = load(&device, &bytes, options);
    let expected = whole.greedy(&prompt, way, &setup(8)).unwrap();
    // D01: every buffer must fit a binding of this size. gate|up has 213 KB, the keys of both KV heads have
    // 270 KB; the position table and the history just fit.
    let mut cut = load(&device, &bytes, RigOptions { binding_bytes_max: 138 << 10, ..options });
    let pages = cut.runner.plan().pages.len();
    assert!(pages > cut.program.matrices.len(), "{pages} pages: nothing was cut");
    assert!(cut.runner.plan().kv_group_heads.iter().any(|heads| *heads < 2), "no head group was cut");
    let run = cut.greedy(&prompt, way, &setup(8)).unwrap();
    assert_eq!(run.bits(), expected.bits());
}

#[test]
fn end_ids_limits_and_context_end_the_run_on_the_gpu() {
    let device = device();
    let bytes = model(Architecture::Qwen3, TensorType::Q8_0);
    let mut rig = load(&device, &bytes, RigOptions::default());
    let prompt = prompt(9);
    let free = rig.greedy(&prompt, Way::default(), &setup(16)).unwrap();
    assert_eq!((free.ids.len(), free.end), (16, 2), "the token limit ends it");
    for steps in [1, 2, 4] {
        let way = Way { steps, ..Way::default() };
        let at = free.ids.iter().position(|id| *id != free.ids[0]).unwrap_or(0);
        let stop = RequestSetup { end_ids: vec![free.ids[at]], ..setup(16) };
        let run = rig.greedy(&prompt, way, &stop).unwrap();
        assert_eq!((&run.ids[..], run.end), (&free.ids[..at], 1), "an end id is not emitted");
        let full = RequestSetup { context_len: 14, ..setup(16) };
        let run = rig.greedy(&prompt, way, &full).unwrap();
        // Nine prompt positions, five more: six tokens come out, the last of them has no position.
        assert_eq!((&run.ids[..], run.end), (&free.ids[..6], 3), "windows of {steps}");
    }
}
