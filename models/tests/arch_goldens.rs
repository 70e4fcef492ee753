//! Spec and program of published models, from headers written at their shapes and types, against text files.
//!
//! Set `UPDATE_GOLDENS=1` to write the files anew, then read the difference.

#[path = "common/decoders.rs"]
mod decoders;
#[path = "common/gguf_writer.rs"]
mod gguf_writer;

use std::path::Path;

use decoders::*;
use fanlight_models::arch::{ModelSummary, ProgramText, SmallTensors, program};
use gguf_writer::GgufWriter;

fn assert_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, text).expect("a writable golden");
    }
    let golden = std::fs::read_to_string(&path).expect("a golden of that name");
    if let Some(difference) = first_difference(text, &golden) {
        panic!("{name}, {difference}");
    }
}

/// The first line in which two texts differ.
fn first_difference(text: &str, golden: &str) -> Option<String> {
    let (mut found, mut wanted) = (text.lines(), golden.lines());
    for number in 1.. {
        match (found.next(), wanted.next()) {
            (None, None) => break,
            (line, golden_line) if line != golden_line => {
                return Some(format!("line {number}: {line:?} for {golden_line:?}"));
            }
            _ => {}
        }
    }
    None
}

#[test]
fn goldens_notice_one_changed_line() {
    let program = program(&spec_of(&smollm2_135m()).expect("good"), &SmallTensors::new()).expect("a program");
    let text = ProgramText(&program).to_string();
    assert_eq!(first_difference(&text, &text), None);
    let mut changed = program.clone();
    changed.matrices[7].parts[0].rows += 1;
    assert!(first_difference(&ProgramText(&changed).to_string(), &text).is_some());
    let mut changed = program.clone();
    changed.ropes[0].inverse_frequencies[5] =
        f64::from_bits(program.ropes[0].inverse_frequencies[5].to_bits() + 1);
    assert!(first_difference(&ProgramText(&changed).to_string(), &text).is_some());
    let mut changed = program;
    changed.body.pop();
    assert!(first_difference(&ProgramText(&changed).to_string(), &text).is_some());
}

fn assert_model(name: &str, writer: &GgufWriter, small: &SmallTensors) {
    let spec = spec_of(writer).expect("a good model");
    let program = program(&spec, small).expect("a program");
    assert_golden(&format!("{name}.spec.txt"), &spec.to_string());
    assert_golden(&format!("{name}.program.txt"), &ProgramText(&program).to_string());
}

/// Layers to which the usual mixed quantisation gives more bits: the first and last eighth and every third
/// between.
fn has_more_bits(layer: u64, layers: u64) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
}

fn smollm2_135m() -> GgufWriter {
    let shape = Decoder {
        layers: 30,
        width: 576,
        heads: 9,
        kv_heads: 3,
        head_len: 64,
        feed_forward: 1536,
        vocabulary: 49_152,
        context: 8192,
        freq_base: 100_000.0,
        tied: true,
        type_of: |_, name| if name == "token_embd" { Q8_0 } else { Q4_1 },
        ..tiny("llama")
    };
    let mut w = shape.writer();
    w.set_u32("llama.vocab_size", 49_152).set_u32("llama.rope.dimension_count", 64);
    w
}

#[test]
fn smollm2_135m_q4_1() {
    let w = smollm2_135m();
    assert_model("smollm2-135m-q4_1", &w, &SmallTensors::new());
    let summary = ModelSummary::new(&model_of(&w)).expect("a summary");
    assert_golden("smollm2-135m-q4_1.summary.txt", &summary.to_string());
}

#[test]
fn qwen2_5_0_5b_q4_k_m() {
    let shape = Decoder {
        layers: 24,
        width: 896,
        heads: 14,
        kv_heads: 2,
        head_len: 64,
        feed_forward: 4864,
        vocabulary: 151_936,
        context: 32_768,
        freq_base: 1e6,
        epsilon: 1e-6,
        // Rows of 896 are no whole superblocks, so most tensors fall back to other types.
        type_of: |layer, name| {
            let more = [0, 1, 3, 6, 7, 8, 9, 10, 13, 16, 19, 21].contains(&layer);
            match (name, more) {
                ("output", _) | ("attn_v", true) => Q8_0,
                ("ffn_down", true) => Q6_K,
                ("ffn_down", false) => Q4_K,
                _ => Q5_0,
            }
        },
        ..tiny("qwen2")
    };
    assert_model("qwen2.5-0.5b-q4_k_m", &shape.writer(), &SmallTensors::new());
}

#[test]
fn gemma_3_270m_q4_k_m() {
    let shape = Decoder {
        layers: 18,
        width: 640,
        heads: 4,
        kv_heads: 1,
        head_len: 256,
        feed_forward: 2048,
        vocabulary: 262_144,
        context: 32_768,
        freq_base: 1e6,
        epsilon: 1e-6,
        tied: true,
        key_length: true,
        type_of: |layer, name| {
            let more = [0, 1, 4, 7, 10, 13, 15, 16, 17].contains(&layer);
            match (name, more) {
                ("token_embd", _) | ("attn_v", true) => Q8_0,
                ("ffn_down", true) => Q6_K,
                ("ffn_down", false) | ("attn_output", _) => Q4_K,
                _ => Q5_0,
            }
        },
        ..tiny("gemma3")
    };
    let mut w = shape.writer();
    w.set_u32("gemma3.attention.sliding_window", 512);
    assert_model("gemma-3-270m-q4_k_m", &w, &SmallTensors::new());
}

#[test]
fn llama_3_1_8b_q4_k_m() {
    let shape = Decoder {
        layers: 32,
        width: 4096,
        heads: 32,
        kv_heads: 8,
        head_len: 128,
        feed_forward: 14_336,
        vocabulary: 128_256,
        context: 131_072,
        freq_base: 500_000.0,
        type_of: |layer, name| match name {
            "output" => Q6_K,
            "attn_v" | "ffn_down" if has_more_bits(layer, 32) => Q6_K,
            _ => Q4_K,
        },
        ..tiny("llama")
    };
    let mut w = shape.writer();
    w.set_u32("llama.rope.dimension_count", 128).set_u32("llama.vocab_size", 128_256);
    w.tensor("rope_freqs.weight", &[64], F32);
    // Llama 3.1's table: high frequencies as trained, low ones an eighth, a ramp between.
    let divisors = (0..64).map(|pair| {
        let wavelength = std::f64::consts::TAU * libm::pow(500_000.0, f64::from(pair) / 64.0);
        let smooth = ((8192.0 / wavelength - 1.0) / 3.0).clamp(0.0, 1.0);
        (1.0 / ((1.0 - smooth) / 8.0 + smooth)) as f32
    });
    let small = SmallTensors::from([("rope_freqs.weight".to_owned(), divisors.collect())]);
    assert_model("llama-3.1-8b-q4_k_m", &w, &small);
}

#[test]
fn qwen3_4b_q4_k_m() {
    let shape = Decoder {
        layers: 36,
        width: 2560,
        heads: 32,
        kv_heads: 8,
        head_len: 128,
        feed_forward: 9728,
        vocabulary: 151_936,
        context: 40_960,
        freq_base: 1e6,
        epsilon: 1e-6,
        tied: true,
        key_length: true,
        type_of: |layer, name| match name {
            "token_embd" => Q6_K,
            "attn_v" | "ffn_down" if has_more_bits(layer, 36) => Q6_K,
            _ => Q4_K,
        },
        ..tiny("qwen3")
    };
    assert_model("qwen3-4b-q4_k_m", &shape.writer(), &SmallTensors::new());
}

#[test]
fn gemma_3_27b_q4_0() {
    let shape = Decoder {
        layers: 62,
        width: 5376,
        heads: 32,
        kv_heads: 16,
        head_len: 128,
        feed_forward: 21_504,
        vocabulary: 262_144,
        context: 131_072,
        freq_base: 1e6,
        epsilon: 1e-6,
        tied: true,
        key_length: true,
        type_of: |_, name| if name == "token_embd" { F16 } else { Q4_0 },
        ..tiny("gemma3")
    };
    let mut w = shape.writer();
    w.set_u32("gemma3.attention.sliding_window", 1024);
    w.set_str("gemma3.rope.scaling.type", "linear").set_f32("gemma3.rope.scaling.factor", 8.0);
    assert_model("gemma-3-27b-q4_0", &w, &SmallTensors::new());
}

/// The smallest model of each later family, with every key and tensor that is its own.
#[test]
fn later_families() {
    let pairs = |len: usize| vec![2.0; len];
    for arch in [
        "qwen2vl", "qwen3vl", "gemma", "gemma2", "phi3", "smollm3", "mistral3", "granite", "ernie4_5",
        "olmo2", "exaone4",
    ] {
        let mut w = Decoder { layers: 4, ..tiny(arch) }.writer();
        let key = |name: &str| format!("{arch}.{name}");
        let mut small = SmallTensors::new();
        match arch {
            "gemma2" | "olmo2" | "exaone4" => {
                w.set_u32(&key("attention.sliding_window"), 32);
            }
            "phi3" => {
                w.set_u32(&key("rope.dimension_count"), 12).set_f32(&key("rope.scaling.attn_factor"), 1.19);
                w.set_u32(&key("rope.scaling.original_context_length"), 64);
                for name in ["rope_factors_short.weight", "rope_factors_long.weight"] {
                    w.tensor(name, &[6], F32);
                    small.insert(name.to_owned(), pairs(6));
                }
            }
            "mistral3" => {
                w.set_str(&key("rope.scaling.type"), "yarn").set_f32(&key("rope.scaling.factor"), 16.0);
                w.set_u32(&key("rope.scaling.original_context_length"), 64);
                w.set_f32(&key("attention.temperature_scale"), 0.1);
            }
            "granite" => {
                w.set_f32(&key("embedding_scale"), 12.0).set_f32(&key("residual_scale"), 0.22);
                w.set_f32(&key("attention.scale"), 0.0625).set_f32(&key("logit_scale"), 8.0);
                w.tensor("blk.1.attn_output.bias", &[64], F32).tensor("blk.1.ffn_gate.bias", &[96], F32);
            }
            _ => {}
        }
        assert_model(&format!("tiny-{arch}"), &w, &small);
    }
}
