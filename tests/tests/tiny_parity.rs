//! Tiny models of every architecture and weight type: the engine against the independent f64 reference.
//!
//! The reference imitates the engine's roundings, so tokens agree to f32 precision until an activation falls
//! so close to a rounding tie that f32 and f64 choose different int8 codes. Such a flip puts that token, and
//! all that attend to it, at the level of int8 noise. Quantised models are therefore compared over many short
//! sequences: most of them are exact, none is worse than noise. Float models have no codes and are compared
//! over one long sequence, across the sliding window of gemma3.

use fanlight_gpu::{AdapterPreference, Device};
use fanlight_messages::TensorType;
use fanlight_tests::reference::{Reference, Roundings};
use fanlight_tests::rig::{Rig, RigOptions, in_memory};
use fanlight_tests::synth::{Architecture, tiny};
use futures::executor::block_on;

/// Tokens of the one sequence of a float model and of its batches: the window of gemma3 (24) is crossed.
const FLOAT: (usize, usize) = (32, 4);
/// Tokens of all sequences of a quantised model and of each: a flip is likely in a long one.
const QUANTISED: (usize, usize) = (48, 2);
/// Batches that must be exact. A wrong kernel makes none; three do not happen by chance.
const EXACT_MIN: usize = 3;

/// Largest logit difference of each batch, relative to the spread of its logits; sorted.
fn deviations(device: &Device, architecture: Architecture, tensor_type: TensorType) -> Vec<f64> {
    let bytes = tiny(architecture, tensor_type, 7).build().unwrap().to_bytes();
    let roundings = Roundings { int8_activations: !tensor_type.is_float(), f16_kv: true };
    let mut reference = Reference::from_bytes(bytes.clone(), roundings).unwrap();
    let (len, batch) = if tensor_type.is_float() { FLOAT } else { QUANTISED };
    let options =
        RigOptions { batch_tokens: batch as u32, logits_rows: batch as u32, ..RigOptions::default() };
    let mut rig = Rig::load(device, in_memory(bytes), options).unwrap();
    let tokens: Vec<u32> = (0..len as u32).map(|i| (i * 37 + 11) % 250).collect();
    let mut deviations = Vec::new();
    for tokens in tokens.chunks(batch) {
        if !tensor_type.is_float() {
            reference.truncate(0);
        }
        let base = reference.position() as u32;
        let expected = reference.forward(tokens).unwrap().logits;
        let got = block_on(rig.runner.score(base, tokens)).unwrap();
        let expected = expected.concat();
        let spread = (expected.iter().map(|x| x * x).sum::<f64>() / expected.len() as f64).sqrt();
        let worst = expected.iter().zip(&got).map(|(e, g)| (f64::from(*g) - e).abs()).fold(0.0, f64::max);
        deviations.push(worst / spread);
    }
    deviations.sort_by(f64::total_cmp);
    deviations
}

fn check(device: &Device, architecture: Architecture, tensor_type: TensorType) {
    let deviations = deviations(device, architecture, tensor_type);
    let (exact, worst) = (deviations[EXACT_MIN - 1], deviations[deviations.len() - 1]);
    println!("{architecture:?} {tensor_type}: {EXACT_MIN} within {exact:.1e}, worst {worst:.1e}");
    // Keys and values are halves: where f32 and f64 round to different ones, 1e-3 of a row moves.
    let limit = if tensor_type.is_float() { 2e-3 } else { 2e-5 };
    assert!(
        exact < limit,
        "{architecture:?} {tensor_type}: {EXACT_MIN} batches within {exact}, {limit} is rounding"
    );
    assert!(worst < 0.3, "{architecture:?} {tensor_type}: worst {worst}, at most 0.3 is int8 noise");
}

fn device() -> Device {
    block_on(Device::open(AdapterPreference::HighPerformance))
        .expect("a GPU adapter is required by this test")
}

#[test]
fn every_weight_type_agrees_with_the_reference() {
    let device = device();
    for tensor_type in TensorType::ALL {
        check(&device, Architecture::Llama, tensor_type);
    }
}

#[test]
fn every_architecture_agrees_with_the_reference() {
    let device = device();
    for architecture in [Architecture::Qwen2, Architecture::Qwen3, Architecture::Gemma3] {
        for tensor_type in [TensorType::Q4_0, TensorType::Q4K, TensorType::F32] {
            check(&device, architecture, tensor_type);
        }
    }
}
