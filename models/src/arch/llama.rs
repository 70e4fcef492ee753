//! llama: Llama 2 and 3, Mistral, SmolLM and others that converters write as such.
//!
//! Converters reorder the query and key rows of these models, so neighbouring elements rotate together. Llama
//! 3.1 and later bring one frequency divisor per rotated pair. A window in the file (Mistral 7B v0.1) is that
//! of every layer.

use fanlight_messages::program::RopePairing;

use super::decoder::{AttentionRules, Biases, DecoderTraits, FeedForwardForm, Scales, build};
use super::error::ArchError;
use super::hyper::Hyperparameters;
use super::rope::{read_dimensions, read_rotary};
use super::tensors::TensorSource;
use crate::gguf::ModelFile;
use crate::spec::ModelSpec;

/// `general.architecture`.
pub(super) const NAME: &str = "llama";

/// What llama files have, and others that are made like them.
pub(super) const TRAITS: DecoderTraits = DecoderTraits {
    biases: Biases::All,
    feed_forward: FeedForwardForm::GateOptional,
    ..DecoderTraits::PLAIN
};

pub(super) fn read(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    let hyper = Hyperparameters::read(model, NAME, &[])?;
    let mut tensors = TensorSource::new(model);
    let divisors = tensors.optional_vector("rope_freqs.weight".to_owned(), read_dimensions(&hyper)? / 2)?;
    let rope = read_rotary(&hyper, RopePairing::Adjacent, divisors)?;
    let rules = AttentionRules::windowed(&hyper, rope)?;
    build(&hyper, tensors, TRAITS, rules, Scales::NONE)
}
