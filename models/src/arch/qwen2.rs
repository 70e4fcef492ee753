//! qwen2: Qwen 2 and 2.5, and the text part of Qwen 2 VL and 2.5 VL. Biases on the query, key and value
//! projections; halves of a head rotate together.
//!
//! The vision models share the pairs of a head out among time, height and width. In text these are one
//! position, so their rotation is the same.

use fanlight_messages::program::RopePairing;

use super::decoder::{AttentionRules, Biases, DecoderTraits, FeedForwardForm, Scales, build};
use super::error::ArchError;
use super::hyper::Hyperparameters;
use super::rope::read_rotary;
use super::tensors::TensorSource;
use crate::gguf::ModelFile;
use crate::spec::ModelSpec;

/// `general.architecture`.
pub(super) const NAME: &str = "qwen2";

/// The same of models that see images.
pub(super) const NAME_VISION: &str = "qwen2vl";

const TRAITS: DecoderTraits = DecoderTraits {
    biases: Biases::Projections,
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
