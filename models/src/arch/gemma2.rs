//! gemma2: Gemma 2. As Gemma 3 without norms of heads; each second layer sees everything, all rotate by one
//! table, and soft caps bound scores and logits.

use fanlight_messages::program::{GateFunction, RopePairing};

use super::decoder::{AttentionRules, DecoderTraits, Scales, build, query_scale};
use super::error::ArchError;
use super::gemma3::score_len;
use super::hyper::Hyperparameters;
use super::rope::read_rotary;
use super::tensors::TensorSource;
use crate::gguf::ModelFile;
use crate::spec::ModelSpec;

/// `general.architecture`.
pub(super) const NAME: &str = "gemma2";

const TRAITS: DecoderTraits =
    DecoderTraits { post_norms: true, gate: GateFunction::GeluTanh, ..DecoderTraits::PLAIN };

/// Of so many layers in a row the last one sees everything.
const PATTERN_DEFAULT: u32 = 2;
/// What files from before these keys mean.
const WINDOW_DEFAULT: u32 = 4_096;
const SCORES_CAP_DEFAULT: f32 = 50.0;
const LOGITS_CAP_DEFAULT: f32 = 30.0;
/// Layers of the 27B model, whose scores alone are scaled by `width / heads` instead of the head length.
const LAYERS_27B: usize = 46;

pub(super) fn read(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    let hyper = Hyperparameters::read(model, NAME, &[])?;
    let rope = read_rotary(&hyper, RopePairing::Halves, None)?;
    let window = hyper.u32("attention.sliding_window")?.unwrap_or(WINDOW_DEFAULT);
    let rules = AttentionRules::uniform(&hyper, rope)?;
    let mut rules = rules.with_windows(&hyper, Some(window).filter(|window| *window > 0), PATTERN_DEFAULT)?;
    rules.query_scale = query_scale(&hyper, score_len(&hyper, LAYERS_27B))?;
    rules.soft_cap = rules.soft_cap.or(Some(SCORES_CAP_DEFAULT));
    let mut spec = build(&hyper, TensorSource::new(model), TRAITS, rules, Scales::of_gemma(&hyper))?;
    spec.logits_soft_cap = spec.logits_soft_cap.or(Some(LOGITS_CAP_DEFAULT));
    Ok(spec)
}
