//! Rules of the architectures and of lowering that no public report names.

#[path = "common/decoders.rs"]
mod decoders;
#[path = "common/gguf_writer.rs"]
mod gguf_writer;

use decoders::*;
use fanlight_messages::program::{GateFunction, Op, Program, RopePairing};
use fanlight_models::arch::{ArchError, decode_floats};
use gguf_writer::{GgufWriter, array, value_type};

/// Offset, matrix name and rows of every multiplication into the row called `value`.
fn writes_of(program: &Program, value: &str) -> Vec<(u32, String, u64)> {
    let multiplications = program.body.iter().filter_map(|op| match op {
        Op::Multiply { matrix, output, output_offset, .. } => {
            Some((output, *output_offset, &program.matrices[matrix.index()]))
        }
        _ => None,
    });
    multiplications
        .filter(|(output, ..)| program.values[output.index()].name == value)
        .map(|(_, offset, matrix)| (offset, matrix.name.clone(), matrix.rows))
        .collect()
}

/// Types of q, k and v, and the writes they lead to.
type StackCase = ([u32; 3], &'static [(u32, &'static str, u64)]);

#[test]
fn neighbours_of_one_type_are_stacked_and_others_write_beside_them() {
    let cases: [StackCase; 4] = [
        ([Q8_0, Q8_0, Q8_0], &[(0, "blk.0.qkv", 128)]),
        ([Q8_0, Q8_0, Q4_0], &[(0, "blk.0.qk", 96), (96, "blk.0.v", 32)]),
        ([Q4_0, Q8_0, Q8_0], &[(0, "blk.0.q", 64), (64, "blk.0.kv", 64)]),
        ([Q4_0, Q8_0, Q4_0], &[(0, "blk.0.q", 64), (64, "blk.0.k", 32), (96, "blk.0.v", 32)]),
    ];
    for (types, wanted) in cases {
        let mut w = Decoder { layers: 1, ..tiny("llama") }.writer();
        for (name, type_id) in ["q", "k", "v"].into_iter().zip(types) {
            w.tensor_mut(&format!("blk.0.attn_{name}.weight")).type_id = type_id;
        }
        let wanted: Vec<_> = wanted.iter().map(|(at, name, rows)| (*at, (*name).to_owned(), *rows)).collect();
        assert_eq!(writes_of(&program_of(&w), "qkv"), wanted);
    }
    let mut w = Decoder { layers: 1, ..tiny("llama") }.writer();
    let both = vec![(0, "blk.0.gate_up".to_owned(), 192)];
    assert_eq!(writes_of(&program_of(&w), "gate_up"), both);
    w.tensor_mut("blk.0.ffn_up.weight").type_id = Q4_0;
    let apart = vec![(0, "blk.0.gate".to_owned(), 96), (96, "blk.0.up".to_owned(), 96)];
    assert_eq!(writes_of(&program_of(&w), "gate_up"), apart);
}

#[test]
fn float_elements_are_kept_exactly_where_a_float_matrix_reads_them() {
    let kept = |w: &GgufWriter| {
        let program = program_of(w);
        let names: Vec<_> = program.activations.iter().filter(|a| a.keeps_values).map(|a| a.name).collect();
        names
    };
    assert_eq!(kept(&tiny("llama").writer()), [""; 0]);
    for (tensor, row) in [
        ("blk.1.attn_k.weight", "normed"),
        ("output.weight", "normed"),
        ("blk.0.attn_output.weight", "attended"),
        ("blk.1.ffn_down.weight", "activated"),
    ] {
        for type_id in [F32, F16] {
            let mut w = tiny("llama").writer();
            w.tensor_mut(tensor).type_id = type_id;
            assert_eq!(kept(&w), [row], "{tensor}");
        }
    }
    // A float table that only feeds the embedding reads no activation.
    let mut w = tiny("llama").writer();
    w.tensor_mut("token_embd.weight").type_id = F16;
    assert_eq!(kept(&w), [""; 0]);
}

#[test]
fn a_missing_bias_among_present_ones_is_zeros() {
    let full = program_of(&tiny("qwen2").writer());
    let mut w = tiny("qwen2").writer();
    w.remove_tensor("blk.0.attn_k.bias");
    let program = program_of(&w);
    let parts = |program: &Program, layer: u32| {
        let name = format!("blk.{layer}.qkv_bias");
        let vector = program.vectors.iter().find(|v| v.name == name).expect("a bias");
        vector.parts.iter().map(|p| (p.tensor.clone().unwrap_or_default(), p.len)).collect::<Vec<_>>()
    };
    assert_eq!(parts(&program, 1), parts(&full, 1));
    let wanted = [("blk.0.attn_q.bias", 64), ("", 32), ("blk.0.attn_v.bias", 32)];
    assert_eq!(parts(&program, 0), wanted.map(|(name, len)| (name.to_owned(), len)));
    for name in ["attn_q", "attn_v"] {
        w.remove_tensor(&format!("blk.0.{name}.bias"));
    }
    let program = program_of(&w);
    let biases: Vec<_> = program
        .body
        .iter()
        .filter_map(|op| match op {
            Op::Heads { bias, .. } => Some(bias.is_some()),
            _ => None,
        })
        .collect();
    assert_eq!(biases, [false, true]);
}

#[test]
fn pairing_gate_and_scale_belong_to_the_architecture() {
    for (arch, pairing, gate, scale) in [
        ("llama", RopePairing::Adjacent, GateFunction::Silu, 1.0),
        ("qwen2", RopePairing::Halves, GateFunction::Silu, 1.0),
        ("qwen3", RopePairing::Halves, GateFunction::Silu, 1.0),
        ("gemma3", RopePairing::Halves, GateFunction::GeluTanh, 8.0),
    ] {
        let program = program_of(&tiny(arch).writer());
        assert!(program.ropes.iter().all(|rope| rope.pairing == pairing), "{arch}");
        assert!(program.body.iter().all(|op| match op {
            Op::Activate { function, .. } => *function == gate,
            Op::Embed { scale: found, .. } => *found == scale,
            Op::Heads { query_scale, query_norm, key_norm, .. } => {
                let normed = arch == "qwen3" || arch == "gemma3";
                *query_scale == 0.25 && query_norm.is_some() == normed && key_norm.is_some() == normed
            }
            _ => true,
        }));
    }
}

/// Window and rotary table of every layer.
fn attention_of(program: &Program) -> Vec<(Option<u32>, u32)> {
    let ropes = program.body.iter().filter_map(|op| match op {
        Op::Heads { rope: Some(rope), .. } => Some(rope.0),
        _ => None,
    });
    let windows = program.body.iter().filter_map(|op| match op {
        Op::Attend { window, .. } => Some(*window),
        _ => None,
    });
    windows.zip(ropes).collect()
}

#[test]
fn gemma3_windows_follow_the_file_or_the_usual_period() {
    let (local, global) = ((Some(32), 1), (None, 0));
    let mut w = Decoder { layers: 8, freq_base: 1e6, ..tiny("gemma3") }.writer();
    assert_eq!(attention_of(&program_of(&w)), [global; 8], "without a window");
    w.set_u32("gemma3.attention.sliding_window", 32);
    let usual = [local, local, local, local, local, global, local, local];
    let program = program_of(&w);
    assert_eq!(attention_of(&program), usual);
    let second = |rope: usize, program: &Program| program.ropes[rope].inverse_frequencies[1];
    let near = |a: f64, base: f64| (a / base.powf(-0.125) - 1.0).abs() < 1e-12;
    assert!(near(second(0, &program), 1e6) && near(second(1, &program), 1e4));

    w.set_f32("gemma3.rope.freq_base_swa", 5e3);
    w.set_str("gemma3.rope.scaling.type", "linear").set_f32("gemma3.rope.scaling.factor", 8.0);
    let scaled = program_of(&w);
    assert!(near(8.0 * second(0, &scaled), 1e6) && near(second(1, &scaled), 5e3));

    let key = "gemma3.attention.sliding_window_pattern";
    w.set_u32(key, 2);
    assert_eq!(attention_of(&program_of(&w)), [local, global, local, global, local, global, local, global]);
    let flags =
        |flags: &[u8]| array(value_type::BOOL, &flags.iter().map(|flag| vec![*flag]).collect::<Vec<_>>());
    w.set(key, value_type::ARRAY, flags(&[0, 1, 1, 0, 0, 0, 0, 1]));
    assert_eq!(attention_of(&program_of(&w)), [global, local, local, global, global, global, global, local]);
    w.set(key, value_type::ARRAY, flags(&[0, 1]));
    assert!(matches!(spec_of(&w), Err(ArchError::ListLength { found: 2, wanted: 8, .. })));
}

#[test]
fn gemma3_adds_normalised_deltas_one_norm_later() {
    let program = program_of(&tiny("gemma3").writer());
    let norms: Vec<_> = program
        .body
        .iter()
        .filter_map(|op| match op {
            Op::Normalize { post_norm, weight, delta, .. } => {
                let name =
                    |id: fanlight_messages::program::VectorId| program.vectors[id.index()].name.as_str();
                Some((post_norm.map(name), weight.map_or("none", name), delta.is_some()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        norms,
        [
            (None, "blk.0.attn_norm", false),
            (Some("blk.0.post_attention_norm"), "blk.0.ffn_norm", true),
            (Some("blk.0.post_ffw_norm"), "blk.1.attn_norm", true),
            (Some("blk.1.post_attention_norm"), "blk.1.ffn_norm", true),
            (Some("blk.1.post_ffw_norm"), "output_norm", true),
        ]
    );
}

#[test]
fn soft_caps_come_from_the_file() {
    let mut w = tiny("gemma3").writer();
    let caps = |w: &GgufWriter| {
        let program = program_of(w);
        let scores = program.body.iter().find_map(|op| match op {
            Op::Attend { soft_cap, .. } => Some(*soft_cap),
            _ => None,
        });
        (scores.flatten(), program.logits_soft_cap)
    };
    assert_eq!(caps(&w), (None, None));
    w.set_f32("gemma3.attn_logit_softcapping", 50.0).set_f32("gemma3.final_logit_softcapping", 30.0);
    assert_eq!(caps(&w), (Some(50.0), Some(30.0)));
    w.set_f32("gemma3.attn_logit_softcapping", 0.0).set_f32("gemma3.final_logit_softcapping", 0.0);
    assert_eq!(caps(&w), (None, None));
}

#[test]
fn tensors_that_would_be_ignored_are_refused() {
    for name in [
        "blk.0.attn_sinks.weight",
        "blk.0.attn_q_norm.weight",
        "blk.0.post_ffw_norm.weight",
        "output.bias",
        "token_embd_norm.weight",
        "rope_factors_long.weight",
    ] {
        let mut w = tiny("llama").writer();
        w.tensor(name, &[64], F32);
        let error = spec_of(&w).expect_err(name);
        assert_eq!(error, ArchError::UnusedTensor { tensor: name.to_owned(), architecture: "llama" });
    }
    for (arch, name) in [
        ("qwen3", "blk.0.attn_q.bias"),
        ("qwen2", "rope_freqs.weight"),
        ("qwen2", "blk.0.attn_output.bias"),
        ("gemma3", "blk.1.ffn_gate.bias"),
    ] {
        let mut w = tiny(arch).writer();
        w.tensor(name, &[64], F32);
        assert!(matches!(spec_of(&w), Err(ArchError::UnusedTensor { .. })), "{name}");
    }
}

#[test]
fn settings_that_would_be_ignored_are_refused() {
    let refused = |set: &dyn Fn(&mut GgufWriter)| {
        let mut w = tiny("llama").writer();
        set(&mut w);
        matches!(spec_of(&w), Err(ArchError::UnsupportedSetting { .. }))
    };
    assert!(refused(&|w| {
        w.set_u32("llama.expert_count", 8);
    }));
    assert!(refused(&|w| {
        w.set_f32("llama.attention.temperature_scale", 0.1);
    }));
    assert!(refused(&|w| {
        w.set_f32("llama.logit_scale", 0.5);
    }));
    assert!(refused(&|w| {
        w.set_f32("llama.attention.clamp_kqv", 8.0);
    }));
    assert!(refused(&|w| {
        w.set_bool("llama.attention.causal", false);
    }));
    // Neutral values are no settings.
    let mut w = tiny("llama").writer();
    w.set_u32("llama.expert_count", 0).set_u32("llama.attention.sliding_window", 128);
    w.set_f32("llama.logit_scale", 1.0).set_bool("llama.attention.causal", true);
    assert_eq!(program_of(&w), program_of(&tiny("llama").writer()));
    let mut w = tiny("llama").writer();
    w.set_str("general.architecture", "mamba");
    let error = spec_of(&w).expect_err("refused").to_string();
    assert!(error.contains("mamba") && error.contains("llama, qwen2, qwen3, gemma3"), "{error}");
}

#[test]
fn k02_a_window_in_the_file_is_that_of_every_layer() {
    for arch in ["llama", "qwen2", "qwen3"] {
        let mut w = tiny(arch).writer();
        w.set_u32(&format!("{arch}.attention.sliding_window"), 64);
        assert_eq!(attention_of(&program_of(&w)), [(Some(64), 0); 2], "{arch}");
        w.set_u32(&format!("{arch}.attention.sliding_window"), 128);
        assert_eq!(attention_of(&program_of(&w)), [(None, 0); 2], "{arch}: the whole context");
    }
}

#[test]
fn k02_a_feed_forward_may_lack_its_gate() {
    let mut w = tiny("llama").writer();
    for layer in 0..2 {
        w.remove_tensor(&format!("blk.{layer}.ffn_gate.weight"));
    }
    w.tensor("blk.0.ffn_up.bias", &[96], F32);
    let program = program_of(&w);
    assert_eq!(writes_of(&program, "up")[0], (0, "blk.0.up".to_owned(), 96));
    let forms = program.body.iter().filter_map(|op| match op {
        Op::Activate { gated, bias, .. } => Some((*gated, bias.is_some())),
        _ => None,
    });
    assert_eq!(forms.collect::<Vec<_>>(), [(false, true), (false, false)]);
    let mut w = tiny("gemma3").writer();
    w.remove_tensor("blk.0.ffn_gate.weight");
    assert!(matches!(spec_of(&w), Err(ArchError::MissingTensor { .. })));
}

#[test]
fn n07_keys_of_positions_that_nothing_reads_are_refused_by_name() {
    let mut w = tiny("llama").writer();
    w.set_f32("llama.rope.scaling.alpha", 2.0);
    let error = spec_of(&w).expect_err("refused");
    assert_eq!(error, ArchError::UnknownRopeKey { key: "llama.rope.scaling.alpha".to_owned() });
    // What one architecture reads another does not.
    let mut w = tiny("qwen3").writer();
    w.set_f32("qwen3.rope.freq_base_swa", 1e4);
    assert!(matches!(spec_of(&w), Err(ArchError::UnknownRopeKey { .. })));
    // What has no meaning in text is none of them.
    let mut w = tiny("qwen3").writer();
    w.set_u32s("qwen3.rope.dimension_sections", &[4, 2, 2, 0]);
    assert_eq!(program_of(&w), program_of(&tiny("qwen3").writer()));
}

#[test]
fn l11_companions_of_models_are_told_by_what_they_are() {
    let told = |set: &dyn Fn(&mut GgufWriter)| {
        let mut w = tiny("llama").writer();
        set(&mut w);
        spec_of(&w).expect_err("refused").to_string()
    };
    for (kind, word) in
        [("adapter", "LoRA"), ("imatrix", "importance"), ("mmproj", "projector"), ("vocab", "vocabulary")]
    {
        let error = told(&|w| {
            w.set_str("general.type", kind);
        });
        assert!(error.contains(word) && error.contains("the model's own file"), "{error}");
    }
    let error = told(&|w| {
        w.set_str("general.architecture", "clip");
    });
    assert!(error.contains("projector"), "{error}");
    let mut w = tiny("llama").writer();
    w.tensors.clear();
    let error = spec_of(&w).expect_err("refused").to_string();
    assert!(error.contains("a vocabulary without weights"), "{error}");
    let mut w = tiny("llama").writer();
    w.set_str("general.type", "model");
    assert_eq!(program_of(&w), program_of(&tiny("llama").writer()));
}

#[test]
fn small_tensors_decode_from_every_float_type() {
    use fanlight_messages::TensorType;
    let values = [1.0f32, -0.5, 6.0];
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(decode_floats(TensorType::F32, &bytes).as_deref(), Some(&values[..]));
    let halves = [0x00, 0x3C, 0x00, 0xB8, 0x00, 0x46];
    assert_eq!(decode_floats(TensorType::F16, &halves).as_deref(), Some(&values[..]));
    let bf16: Vec<u8> = values.iter().flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes()).collect();
    assert_eq!(decode_floats(TensorType::Bf16, &bf16).as_deref(), Some(&values[..]));
    assert_eq!(decode_floats(TensorType::F32, &bytes[..5]), None);
    assert_eq!(decode_floats(TensorType::Q8_0, &bytes), None);
}
