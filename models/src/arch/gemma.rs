//! gemma: the first Gemma. Scaled embedding, a GELU gate, no biases, no norms behind the blocks.

use fanlight_messages::program::{GateFunction, RopePairing};

use super::decoder::{AttentionRules, DecoderTraits, Scales, build};
use super::error::ArchError;
use super::hyper::Hyperparameters;
use super::rope::read_rotary;
use super::tensors::TensorSource;
use crate::gguf::ModelFile;
use crate::spec::ModelSpec;

/// `general.architecture`.
pub(super) const NAME: &str = "gemma";

const TRAITS: DecoderTraits = DecoderTraits { gate: GateFunction::GeluTanh, ..DecoderTraits::PLAIN };

pub(super) fn read(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    let hyper = Hyperparameters::read(model, NAME, &[])?;
    let rope = read_rotary(&hyper, RopePairing::Halves, None)?;
    let rules = AttentionRules::uniform(&hyper, rope)?;
    build(&hyper, TensorSource::new(model), TRAITS, rules, Scales::of_gemma(&hyper))
}
