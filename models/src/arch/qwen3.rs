//! qwen3: dense Qwen 3, and the text part of Qwen 3 VL. No biases; every query and key head is normalised
//! before it rotates; heads are longer than `width / heads`.
//!
//! The vision models share the pairs of a head out among time, height and width, which are one position in
//! text, and add image features to the first layers, which text has none of.

use fanlight_messages::program::{NormSpan, RopePairing};

use super::decoder::{AttentionRules, DecoderTraits, FeedForwardForm, Scales, build};
use super::error::ArchError;
use super::hyper::Hyperparameters;
use super::rope::read_rotary;
use super::tensors::TensorSource;
use crate::gguf::ModelFile;
use crate::spec::ModelSpec;

/// `general.architecture`.
pub(super) const NAME: &str = "qwen3";

/// The same of models that see images.
pub(super) const NAME_VISION: &str = "qwen3vl";

const TRAITS: DecoderTraits = DecoderTraits {
    head_norms: Some(NormSpan::Head),
    feed_forward: FeedForwardForm::GateOptional,
    ..DecoderTraits::PLAIN
};

/// Reads either, by its name.
pub(super) fn read(model: &ModelFile, name: &'static str) -> Result<ModelSpec, ArchError> {
    let hyper = Hyperparameters::read(model, name, &[])?;
    let rope = read_rotary(&hyper, RopePairing::Halves, None)?;
    let rules = AttentionRules::windowed(&hyper, rope)?;
    build(&hyper, TensorSource::new(model), TRAITS, rules, Scales::NONE)
}
