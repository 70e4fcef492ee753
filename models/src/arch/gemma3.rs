//! gemma3: Gemma 3 text models. Scaled embedding, norms before and after each block, normalised heads, and
//! five windowed layers for each one that sees everything.
//!
//! Windowed layers rotate with a base of their own and without scaling; the file's base and scaling are for
//! the others. Norm weights are used as stored: converters have already added the 1 of the original formula.

use fanlight_messages::program::{GateFunction, RopePairing};

use super::decoder::{AttentionRules, DecoderTraits, LayerRule, build, query_scale};
use super::error::ArchError;
use super::hyper::Hyperparameters;
use super::rope::{BASE_DEFAULT, read_rotary};
use super::tensors::TensorSource;
use crate::gguf::{MetadataValue, ModelFile};
use crate::spec::{ModelSpec, RopeScaling, RotarySpec};

/// `general.architecture`.
pub(super) const NAME: &str = "gemma3";

const TRAITS: DecoderTraits = DecoderTraits {
    projection_bias: false,
    head_norms: true,
    post_norms: true,
    gate: GateFunction::GeluTanh,
};

/// Of so many layers in a row the last one sees everything.
const PATTERN_DEFAULT: u32 = 6;
/// Layers of the 27B model, whose scores alone are scaled by `width / heads` instead of the head length.
const LAYERS_27B: usize = 62;
/// The table of layers that see everything.
const ROPE_GLOBAL: u32 = 0;
/// The table of windowed layers.
const ROPE_WINDOWED: u32 = 1;

pub(super) fn read(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    let hyper = Hyperparameters::read(&model.metadata, NAME)?;
    let rules = attention_rules(&hyper)?;
    let embed_scale = libm::sqrt(f64::from(hyper.width)) as f32;
    build(&hyper, TensorSource::new(model), TRAITS, rules, embed_scale)
}

fn attention_rules(hyper: &Hyperparameters<'_>) -> Result<AttentionRules, ArchError> {
    let global = read_rotary(hyper, RopePairing::Halves, None)?;
    let query_scale = query_scale(hyper, score_len(hyper))?;
    let seen = LayerRule { rope: ROPE_GLOBAL, window: None };
    let Some(window) = hyper.u32("attention.sliding_window")?.filter(|window| *window > 0) else {
        let layers = vec![seen; hyper.attention.len()];
        return Ok(AttentionRules { ropes: vec![global], query_scale, layers });
    };
    let name = "rope.freq_base_swa";
    let base = match hyper.positive(name)? {
        Some(base) if base <= 1.0 => return Err(hyper.refuse(name, base, "a number above 1")),
        base => base.unwrap_or(BASE_DEFAULT),
    };
    let windowed = RotarySpec { base, scaling: RopeScaling::None, ..global.clone() };
    let rule = LayerRule { rope: ROPE_WINDOWED, window: Some(window) };
    let layers = windowed_layers(hyper)?.into_iter().map(|is_windowed| if is_windowed { rule } else { seen });
    Ok(AttentionRules { ropes: vec![global, windowed], query_scale, layers: layers.collect() })
}

/// The length whose root divides the scores.
fn score_len(hyper: &Hyperparameters<'_>) -> u32 {
    match hyper.attention.first() {
        Some(shape) if hyper.attention.len() == LAYERS_27B => hyper.width / shape.query_heads,
        _ => hyper.head_len,
    }
}

/// True for each layer with a window: by a list in the file, or by a period in it, or by the usual period.
fn windowed_layers(hyper: &Hyperparameters<'_>) -> Result<Vec<bool>, ArchError> {
    let name = "attention.sliding_window_pattern";
    let (metadata, key) = (hyper.metadata(), hyper.key(name));
    let layers = hyper.attention.len();
    if let Some(MetadataValue::Array(_)) = metadata.get(&key) {
        let list = metadata.get_bool_array(&key)?.unwrap_or_default();
        if list.len() != hyper.block_count as usize {
            return Err(ArchError::ListLength { key, found: list.len(), wanted: hyper.block_count as usize });
        }
        return Ok(list.iter().copied().take(layers).collect());
    }
    let period = hyper.u32(name)?.unwrap_or(PATTERN_DEFAULT) as usize;
    // A period of 0 means that every layer has a window.
    Ok((0..layers).map(|layer| period == 0 || layer % period < period - 1).collect())
}
