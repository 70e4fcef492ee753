//! The processor back end: against the f64 reference, and against itself in every way to the same tokens.

use std::rc::Rc;

use fanlight_cpu::{CpuBackend, CpuModel, Level};
use fanlight_messages::TensorType;
use fanlight_messages::device::RequestSetup;
use fanlight_messages::draft::{WIDTHS, Width};
use fanlight_messages::plan::KvFormat;
use fanlight_messages::sampling::{Sampling, SamplingOptions};
use fanlight_tests::reference::{Reference, Roundings};
use fanlight_tests::rig::{GreedyRun, Rig, RigOptions, Way, in_memory, memory_right_for};
use fanlight_tests::synth::{Architecture, tiny};
use futures::executor::block_on;

fn load(bytes: &[u8], backend: &CpuBackend, kv_format: KvFormat) -> Rig<CpuModel> {
    Rig::load_cpu(backend, in_memory(bytes), RigOptions { kv_format, ..RigOptions::default() }).unwrap()
}

fn setup(token_limit: u32) -> RequestSetup {
    RequestSetup { context_len: 512, token_limit, hash_logits: true, ..RequestSetup::default() }
}

/// A prompt that repeats itself, so that drafts are made of it.
fn prompt(len: u32) -> Vec<u32> {
    (0..len).map(|i| (i % 23 * 29 + 3) % 250).collect()
}

/// Batches of two tokens; a few must be exact, none may be worse than int8 noise (tiny_parity.rs has the
/// reasons).
fn deviations(architecture: Architecture, tensor_type: TensorType) -> Vec<f64> {
    let bytes = tiny(architecture, tensor_type, 7).build().unwrap().to_bytes();
    let roundings = Roundings { int8_activations: !tensor_type.is_float(), f16_kv: true };
    let mut reference = Reference::from_bytes(bytes.clone(), roundings).unwrap();
    let mut rig = load(&bytes, &CpuBackend::new(2), KvFormat::F16);
    let tokens: Vec<u32> = (0..48).map(|i| (i * 37 + 11) % 250).collect();
    let mut deviations = Vec::new();
    for tokens in tokens.chunks(if tensor_type.is_float() { 4 } else { 2 }) {
        if !tensor_type.is_float() {
            reference.truncate(0);
        }
        let base = reference.position() as u32;
        let expected = reference.forward(tokens).unwrap().logits.concat();
        let got = block_on(rig.runner.score(base, tokens)).unwrap();
        let spread = (expected.iter().map(|x| x * x).sum::<f64>() / expected.len() as f64).sqrt();
        let worst = expected.iter().zip(&got).map(|(e, g)| (f64::from(*g) - e).abs()).fold(0.0, f64::max);
        deviations.push(worst / spread);
    }
    deviations.sort_by(f64::total_cmp);
    deviations
}

#[test]
fn tiny_models_agree_with_the_f64_reference() {
    for architecture in Architecture::ALL {
        for tensor_type in TensorType::ALL {
            let deviations = deviations(architecture, tensor_type);
            let (exact, worst) = (deviations[2], deviations[deviations.len() - 1]);
            println!("{architecture:?} {tensor_type}: three within {exact:.1e}, worst {worst:.1e}");
            let limit = if tensor_type.is_float() { 2e-3 } else { 2e-5 };
            assert!(exact < limit, "{architecture:?} {tensor_type}: {exact}, {limit} is rounding");
            assert!(worst < 0.3, "{architecture:?} {tensor_type}: {worst}, 0.3 is int8 noise");
        }
    }
}

/// Every way to the same tokens gives `expected`.
fn check_all_ways(rig: &mut Rig<CpuModel>, prompt: &[u32], setup: &RequestSetup, expected: &GreedyRun) {
    let check = |rig: &mut Rig<CpuModel>, way: Way, setup: &RequestSetup| {
        let run = rig.greedy(prompt, way, setup).unwrap();
        assert_eq!(run.bits(), expected.bits(), "{way:?}");
        run
    };
    for chunk in [1, 3, 7, 32, 512] {
        check(rig, Way { chunk, steps: 2, ..Way::default() }, setup);
    }
    for base in [1, 17, prompt.len() as u32 - 1] {
        check(rig, Way { base, steps: 4, ..Way::default() }, setup);
    }
    for (right, steps) in [(0, 4), (3, 1), (usize::MAX, 4)] {
        let memory = memory_right_for(prompt, &expected.ids, right);
        let remembers = RequestSetup { memory, ..setup.clone() };
        for nodes in WIDTHS {
            let way = Way { width: Width::Nodes(nodes), steps, ..Way::default() };
            let run = check(rig, way, &remembers);
            let accepted: u32 = run.steps.iter().map(|step| step.accepted).sum();
            assert!(right < usize::MAX || nodes < 8 || accepted > 4, "{nodes} nodes accept {accepted}");
        }
    }
}

#[test]
fn every_way_on_every_level_and_thread_count_gives_the_same_bits() {
    for (architecture, tensor_type, kv_format) in [
        (Architecture::Llama, TensorType::Q4_0, KvFormat::Q8),
        (Architecture::Qwen2, TensorType::Q8_0, KvFormat::F16),
        (Architecture::Qwen3, TensorType::Q4K, KvFormat::F32),
        (Architecture::Gemma3, TensorType::Q6K, KvFormat::Q8),
    ] {
        let bytes = tiny(architecture, tensor_type, 11).build().unwrap().to_bytes();
        let mut rig = load(&bytes, &CpuBackend::new(2), kv_format);
        let expected = rig.greedy(&prompt(97), Way::default(), &setup(16)).unwrap();
        check_all_ways(&mut rig, &prompt(97), &setup(16), &expected);
        let levels = Level::all().into_iter().zip([1, 2, 3, 8].into_iter().cycle());
        for (level, threads) in levels.chain([(Level::best(), 1), (Level::best(), 8)]) {
            let mut rig = load(&bytes, &CpuBackend::with_level(threads, level), kv_format);
            for width in [Width::Off, Width::Nodes(8)] {
                let way = Way { width, chunk: 40, ..Way::default() };
                let run = rig.greedy(&prompt(97), way, &setup(16)).unwrap();
                assert_eq!(run.bits(), expected.bits(), "{architecture:?} {kv_format:?} {level} {threads}");
            }
        }
    }
}

#[test]
fn drawn_tokens_are_the_same_in_every_way() {
    let bytes = tiny(Architecture::Llama, TensorType::Q4_1, 5).build().unwrap().to_bytes();
    let drawn = |options: SamplingOptions| RequestSetup {
        sampling: Rc::new(Sampling::new(options).unwrap()),
        generated_from: 97,
        ..setup(40)
    };
    let base = SamplingOptions { temperature: 0.9, seed: 7, ..SamplingOptions::default() };
    for options in [
        base.clone(),
        SamplingOptions { top_k: 5, ..base.clone() },
        SamplingOptions { top_p: 0.7, min_p: 0.02, ..base.clone() },
        SamplingOptions { top_k: 40, top_p: 0.95, repeat_penalty: 1.3, frequency_penalty: 0.5, ..base },
    ] {
        let setup = drawn(options);
        let mut rig = load(&bytes, &CpuBackend::new(2), KvFormat::Q8);
        let expected = rig.greedy(&prompt(97), Way::default(), &setup).unwrap();
        check_all_ways(&mut rig, &prompt(97), &setup, &expected);
        let portable = Level::Portable(Default::default());
        let mut rig = load(&bytes, &CpuBackend::with_level(1, portable), KvFormat::Q8);
        assert_eq!(rig.greedy(&prompt(97), Way::default(), &setup).unwrap().bits(), expected.bits());
    }
}
