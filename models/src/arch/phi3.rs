//! phi3: Phi-3, 3.5, 4 and 4-mini. Query, key and value projections in one tensor, gate and up in another;
//! part of a head rotates.
//!
//! Models of long contexts have two sets of frequency divisors. The long one applies when the context that is
//! asked for exceeds the original one, whatever the text's length. A window in the file is not used: see
//! decision 0014.

use fanlight_messages::program::RopePairing;

use super::decoder::{AttentionRules, DecoderTraits, FeedForwardForm, Scales, build};
use super::error::ArchError;
use super::hyper::Hyperparameters;
use super::rope::{original_context_len, read_dimensions, read_rotary};
use super::tensors::TensorSource;
use crate::gguf::ModelFile;
use crate::spec::ModelSpec;

/// `general.architecture`.
pub(super) const NAME: &str = "phi3";

const TRAITS: DecoderTraits = DecoderTraits { feed_forward: FeedForwardForm::Fused, ..DecoderTraits::PLAIN };

pub(super) fn read(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    let hyper = Hyperparameters::read(model, NAME, &[])?;
    let mut tensors = TensorSource::new(model);
    let pairs = read_dimensions(&hyper)? / 2;
    let short = tensors.optional_vector("rope_factors_short.weight".to_owned(), pairs)?;
    let long = tensors.optional_vector("rope_factors_long.weight".to_owned(), pairs)?;
    if short.is_some() != long.is_some() {
        let name = if short.is_none() { "rope_factors_short.weight" } else { "rope_factors_long.weight" };
        return Err(ArchError::MissingTensor { tensor: name.to_owned() });
    }
    let mut rope = read_rotary(&hyper, RopePairing::Halves, short)?;
    let beyond = original_context_len(&hyper)?;
    rope.long = long.map(|divisors| (beyond, divisors));
    let rules = AttentionRules::uniform(&hyper, rope)?;
    build(&hyper, tensors, TRAITS, rules, Scales::NONE)
}
