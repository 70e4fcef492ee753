//! Rotary tables against values computed elsewhere: the published rules in Python doubles (`math.pow`,
//! `math.log`), written after the reference implementations of the model authors.

#[path = "common/decoders.rs"]
mod decoders;
#[path = "common/gguf_writer.rs"]
mod gguf_writer;

use decoders::*;
use fanlight_messages::program::{RopePairing, RopeSpec};
use fanlight_models::arch::{ArchError, SmallTensors, program};
use gguf_writer::GgufWriter;

/// A tiny model with heads of 128, the size of most published ones.
fn wide_heads(arch: &'static str, freq_base: f32, context: u32) -> GgufWriter {
    Decoder { head_len: 128, key_length: true, freq_base, context, ..tiny(arch) }.writer()
}

fn assert_near(rope: &RopeSpec, wanted: &[(usize, f64)]) {
    for (pair, frequency) in wanted {
        let found = rope.inverse_frequencies[*pair];
        assert!((found / frequency - 1.0).abs() < 1e-12, "pair {pair}: {found} for {frequency}");
    }
}

#[test]
fn yarn_follows_the_published_ramp() {
    let mut w = wide_heads("qwen2", 1e6, 131_072);
    w.set_str("qwen2.rope.scaling.type", "yarn").set_f32("qwen2.rope.scaling.factor", 4.0);
    w.set_u32("qwen2.rope.scaling.original_context_length", 32_768);
    let rope = &program_of(&w).ropes[0];
    assert_eq!((rope.inverse_frequencies.len(), rope.pairing), (64, RopePairing::Halves));
    assert!((rope.magnitude - 1.138629436111989).abs() < 1e-12);
    assert_near(
        rope,
        &[
            (0, 1.0),
            (1, 0.8058421877614819),
            (23, 0.006978305848598663),
            (24, 0.005375321490790102),
            (31, 0.0008029597275452302),
            (39, 6.490394320837028e-05),
            (40, 4.445698525097307e-05),
            (63, 3.102344401879299e-07),
        ],
    );
}

#[test]
fn llama3_divisors_give_the_published_frequencies() {
    let (factor, low, high, original) = (8.0f64, 1.0, 4.0, 8192.0);
    let divisors = (0..64).map(|pair| {
        let wavelength = std::f64::consts::TAU * 500_000f64.powf(pair as f64 / 64.0);
        let smooth = ((original / wavelength - low) / (high - low)).clamp(0.0, 1.0);
        (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
    });
    let mut w = wide_heads("llama", 5e5, 131_072);
    w.tensor("rope_freqs.weight", &[64], F32);
    let small = SmallTensors::from([("rope_freqs.weight".to_owned(), divisors.collect())]);
    let rope = &program(&spec_of(&w).expect("good"), &small).expect("good").ropes[0];
    assert_eq!((rope.pairing, rope.magnitude), (RopePairing::Adjacent, 1.0));
    let wanted = [
        (0, 1.0),
        (20, 0.016560440080994446),
        (28, 0.0032114459947525913),
        (29, 0.002166570763503359),
        (30, 0.0013718935677611381),
        (31, 0.0008567514129196321),
        (34, 0.00017850781276799638),
        (35, 9.556212353964683e-05),
        (36, 7.78465527393245e-05),
        (63, 3.068925988914511e-07),
    ];
    // The divisors are floats of 24 bits.
    for (pair, frequency) in wanted {
        assert!((rope.inverse_frequencies[pair] / frequency - 1.0).abs() < 1e-7, "pair {pair}");
    }
}

#[test]
fn linear_scaling_divides_in_both_spellings() {
    let plain = program_of(&tiny("llama").writer());
    let mut new = tiny("llama").writer();
    new.set_str("llama.rope.scaling.type", "linear").set_f32("llama.rope.scaling.factor", 4.0);
    let mut old = tiny("llama").writer();
    old.set_f32("llama.rope.scale_linear", 4.0);
    assert_eq!(program_of(&new), program_of(&old));
    for (scaled, trained) in
        program_of(&new).ropes[0].inverse_frequencies.iter().zip(&plain.ropes[0].inverse_frequencies)
    {
        assert_eq!(*scaled, trained / 4.0);
    }
    new.set_str("llama.rope.scaling.type", "none");
    assert_eq!(program_of(&new), plain);
}

#[test]
fn part_of_a_head_may_rotate() {
    let mut w = tiny("qwen2").writer();
    w.set_u32("qwen2.rope.dimension_count", 8);
    let rope = &program_of(&w).ropes[0];
    assert_near(rope, &[(0, 1.0), (1, 0.1), (2, 0.01), (3, 0.001)]);
    assert_eq!(rope.inverse_frequencies.len(), 4);
}

#[test]
fn rules_that_are_not_implemented_are_refused() {
    let with = |key: &str, value: &str| {
        let mut w = tiny("llama").writer();
        w.set_f32("llama.rope.scaling.factor", 2.0);
        w.set_str(key, value);
        spec_of(&w).expect_err("refused")
    };
    let key = "llama.rope.scaling.type";
    assert!(matches!(with(key, "longrope"), ArchError::UnsupportedSetting { .. }));
    // Without its divisors, this rule would be ignored in silence.
    assert!(matches!(with(key, "llama3"), ArchError::MissingTensor { .. }));
    assert!(matches!(with("llama.rope.freq_base", "10000"), ArchError::Metadata(_)));
    for (key, value) in [("rope.freq_base", 1.0), ("rope.freq_base", -5.0), ("rope.scaling.factor", f32::NAN)]
    {
        let mut w = tiny("llama").writer();
        w.set_f32(&format!("llama.{key}"), value);
        assert!(matches!(spec_of(&w), Err(ArchError::HyperParameter { .. })), "{key}");
    }
    for factor in [None, Some(0.5)] {
        let mut w = tiny("llama").writer();
        w.set_str("llama.rope.scaling.type", "yarn");
        if let Some(factor) = factor {
            w.set_f32("llama.rope.scaling.factor", factor);
        }
        assert!(matches!(spec_of(&w), Err(ArchError::HyperParameter { .. })), "{factor:?}");
    }
}
