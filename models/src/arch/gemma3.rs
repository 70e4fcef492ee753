//! gemma3: Gemma 3 text models. Scaled embedding, norms before and after each block, normalised heads, and
//! five windowed layers for each one that sees everything.
//!
//! Windowed layers rotate with a base of their own and without scaling; the file's base and scaling are for
//! the others. Norm weights are used as stored: converters have already added the 1 of the original formula.

use fanlight_messages::program::{GateFunction, NormSpan, RopePairing};

use super::decoder::{AttentionRules, DecoderTraits, Scales, build, query_scale};
use super::error::ArchError;
use super::hyper::Hyperparameters;
use super::rope::{BASE_DEFAULT, read_rotary};
use super::tensors::TensorSource;
use super::windows::{window, windowed_layers};
use crate::gguf::ModelFile;
use crate::spec::{ModelSpec, RopeScaling, RotarySpec};

/// `general.architecture`.
pub(super) const NAME: &str = "gemma3";

const TRAITS: DecoderTraits = DecoderTraits {
    head_norms: Some(NormSpan::Head),
    post_norms: true,
    gate: GateFunction::GeluTanh,
    rope_keys: &["freq_base_swa"],
    ..DecoderTraits::PLAIN
};

/// Of so many layers in a row the last one sees everything.
const PATTERN_DEFAULT: u32 = 6;
/// Layers of the 27B model, whose scores alone are scaled by `width / heads` instead of the head length.
const LAYERS_27B: usize = 62;
/// The table of windowed layers.
const ROPE_WINDOWED: u32 = 1;

pub(super) fn read(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    let hyper = Hyperparameters::read(model, NAME, &[])?;
    let rules = attention_rules(&hyper)?;
    build(&hyper, TensorSource::new(model), TRAITS, rules, Scales::of_gemma(&hyper))
}

fn attention_rules(hyper: &Hyperparameters<'_>) -> Result<AttentionRules, ArchError> {
    let global = read_rotary(hyper, RopePairing::Halves, None)?;
    let mut rules = AttentionRules::uniform(hyper, global.clone())?;
    rules.query_scale = query_scale(hyper, score_len(hyper, LAYERS_27B))?;
    let Some(window) = window(hyper)? else { return Ok(rules) };
    let name = "rope.freq_base_swa";
    let base = match hyper.positive(name)? {
        Some(base) if base <= 1.0 => return Err(hyper.refuse(name, base, "a number above 1")),
        base => base.unwrap_or(BASE_DEFAULT),
    };
    rules.ropes.push(RotarySpec { base, scaling: RopeScaling::None, ..global });
    for (layer, is_windowed) in rules.layers.iter_mut().zip(windowed_layers(hyper, PATTERN_DEFAULT)?) {
        if is_windowed {
            (layer.rope, layer.window) = (Some(ROPE_WINDOWED), Some(window));
        }
    }
    Ok(rules)
}

/// The length whose root divides the scores: that of a head, but for the models of `layers_27b` layers.
pub(super) fn score_len(hyper: &Hyperparameters<'_>, layers_27b: usize) -> u32 {
    match hyper.attention.first() {
        Some(shape) if hyper.attention.len() == layers_27b => hyper.width / shape.query_heads,
        _ => hyper.head_len,
    }
}
