//! llama: Llama 2 and 3, Mistral, SmolLM and others that converters write as such.
//!
//! Converters reorder the query and key rows of these models, so neighbouring elements rotate together. Llama
//! 3.1 and later bring one frequency divisor per rotated pair.

use fanlight_messages::program::{GateFunction, RopePairing};

use super::decoder::{AttentionRules, DecoderTraits, build};
use super::error::ArchError;
use super::hyper::Hyperparameters;
use super::rope::{read_dimensions, read_rotary};
use super::tensors::TensorSource;
use crate::gguf::ModelFile;
use crate::spec::ModelSpec;

/// `general.architecture`.
pub(super) const NAME: &str = "llama";

const TRAITS: DecoderTraits =
    DecoderTraits { projection_bias: true, head_norms: false, post_norms: false, gate: GateFunction::Silu };

pub(super) fn read(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    let hyper = Hyperparameters::read(&model.metadata, NAME)?;
    let mut tensors = TensorSource::new(model);
    let divisors = tensors.optional_vector("rope_freqs.weight".to_owned(), read_dimensions(&hyper)? / 2)?;
    let rope = read_rotary(&hyper, RopePairing::Adjacent, divisors)?;
    let rules = AttentionRules::uniform(&hyper, rope)?;
    build(&hyper, tensors, TRAITS, rules, 1.0)
}
