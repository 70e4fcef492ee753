//! Tiny models of every architecture and weight type: the engine against the independent f64 reference.

use std::io::Cursor;

use fanlight_gpu::{AdapterPreference, Device};
use fanlight_messages::TensorType;
use fanlight_tests::reference::{Reference, Roundings};
use fanlight_tests::rig::{Rig, RigOptions};
use fanlight_tests::synth::{Architecture, tiny};
use futures::executor::block_on;

fn device() -> Device {
    block_on(Device::open(AdapterPreference::HighPerformance))
        .expect("a GPU adapter is required by this test")
}

/// Largest difference of the engine's logits from the reference, relative to the reference's spread.
fn deviation(device: &Device, architecture: Architecture, tensor_type: TensorType) -> f64 {
    let bytes = tiny(architecture, tensor_type, 7).build().unwrap().to_bytes().unwrap();
    let roundings = Roundings { int8_activations: !tensor_type.is_float(), f16_kv: true };
    let mut reference = Reference::from_bytes(bytes.clone(), roundings).unwrap();
    let mut rig = Rig::load(device, &mut Cursor::new(bytes), RigOptions::default()).unwrap();
    let tokens: Vec<u32> = (0..31u32).map(|i| (i * 37 + 11) % 250).collect();
    let expected = reference.forward(&tokens).unwrap().logits;
    let got = block_on(rig.runner.score(0, &tokens)).unwrap();
    let len = expected[0].len();
    let spread = expected.iter().flatten().map(|x| x * x).sum::<f64>() / (len * expected.len()) as f64;
    let mut worst = 0.0f64;
    for (row, expected) in expected.iter().enumerate() {
        for (i, e) in expected.iter().enumerate() {
            worst = worst.max((f64::from(got[row * len + i]) - e).abs());
        }
    }
    worst / spread.sqrt()
}

#[test]
fn every_architecture_and_type_agrees_with_the_reference() {
    let device = device();
    for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3, Architecture::Gemma3]
    {
        for tensor_type in TensorType::ALL {
            let deviation = deviation(&device, architecture, tensor_type);
            println!("{architecture:?} {tensor_type}: {deviation:.2e}");
            // int8 rounding can flip at a tie: one code of 127 in one block. Exact kernels stay far below.
            let limit = if tensor_type.is_float() { 2e-3 } else { 0.05 };
            assert!(deviation < limit, "{architecture:?} {tensor_type}: {deviation}");
        }
    }
}
