//! The metadata of a synthetic file.

use super::shape::{Architecture, RopeRule, Shape};
use super::vocabulary::Vocabulary;
use crate::gguf::Value;

/// All keys of a model of this shape.
pub fn metadata(shape: &Shape, vocabulary: &Vocabulary, name: &str) -> Vec<(String, Value)> {
    let architecture = shape.architecture.name();
    let mut general = vec![
        ("general.architecture".to_owned(), Value::from(architecture)),
        ("general.name".to_owned(), name.into()),
        ("general.quantization_version".to_owned(), 2_u32.into()),
    ];
    let mut keys: Vec<(&str, Value)> = vec![
        ("block_count", shape.layers.into()),
        ("context_length", shape.context_len.into()),
        ("embedding_length", shape.width.into()),
        ("feed_forward_length", shape.ffn_len.into()),
        ("attention.head_count", shape.query_heads.into()),
        ("attention.head_count_kv", shape.kv_heads.into()),
        ("attention.key_length", shape.head_len.into()),
        ("attention.value_length", shape.head_len.into()),
        ("attention.layer_norm_rms_epsilon", 1e-6_f32.into()),
        ("rope.freq_base", shape.rope_base.into()),
        ("vocab_size", (vocabulary.len() as u32).into()),
    ];
    if shape.architecture == Architecture::Llama || shape.rotated_len.is_some() {
        keys.push(("rope.dimension_count", shape.rotated_len.unwrap_or(shape.head_len).into()));
    }
    keys.extend(own_keys(shape));
    keys.extend(shape.window.map(|window| ("attention.sliding_window", window.into())));
    match shape.rope_rule {
        RopeRule::Plain | RopeRule::Llama3 { .. } => {}
        RopeRule::Long { original_context } => {
            keys.push(("rope.scaling.original_context_length", original_context.into()));
            keys.push(("rope.scaling.attn_factor", 1.19_f32.into()));
        }
        RopeRule::Linear(factor) => {
            keys.push(("rope.scaling.type", "linear".into()));
            keys.push(("rope.scaling.factor", factor.into()));
        }
        RopeRule::Yarn { factor, original_context } => {
            keys.push(("rope.scaling.type", "yarn".into()));
            keys.push(("rope.scaling.factor", factor.into()));
            keys.push(("rope.scaling.original_context_length", original_context.into()));
        }
    }
    general.extend(keys.into_iter().map(|(key, value)| (format!("{architecture}.{key}"), value)));
    general.extend(vocabulary.metadata());
    general
}

/// What one architecture alone has. Each value is far enough from a neutral one to be seen in the logits.
fn own_keys(shape: &Shape) -> Vec<(&'static str, Value)> {
    match shape.architecture {
        // Pairs of a head for time, height and width; llama.cpp leaves those beyond three equal parts
        // unrotated.
        Architecture::Qwen2Vl | Architecture::Qwen3Vl => {
            let pairs = (shape.head_len / 2) as i32;
            let third = pairs / 3;
            let sections = [pairs - 2 * third, third, third, 0];
            vec![("rope.dimension_sections", Value::i32s(&sections))]
        }
        Architecture::Gemma2 => {
            vec![("attn_logit_softcapping", 1.5_f32.into()), ("final_logit_softcapping", 5.0_f32.into())]
        }
        Architecture::Mistral3 => vec![
            ("attention.temperature_scale", 0.4_f32.into()),
            ("rope.scaling.yarn_log_multiplier", 0.5_f32.into()),
        ],
        Architecture::Granite => vec![
            ("embedding_scale", 3.0_f32.into()),
            ("residual_scale", 0.4_f32.into()),
            ("attention.scale", 0.35_f32.into()),
            ("logit_scale", 1.7_f32.into()),
        ],
        _ => Vec::new(),
    }
}
