//! qwen2: Qwen 2 and 2.5. Biases on the query, key and value projections; halves of a head rotate together.

use fanlight_messages::program::{GateFunction, RopePairing};

use super::decoder::{AttentionRules, DecoderTraits, build};
use super::error::ArchError;
use super::hyper::Hyperparameters;
use super::rope::read_rotary;
use super::tensors::TensorSource;
use crate::gguf::ModelFile;
use crate::spec::ModelSpec;

/// `general.architecture`.
pub(super) const NAME: &str = "qwen2";

const TRAITS: DecoderTraits =
    DecoderTraits { projection_bias: true, head_norms: false, post_norms: false, gate: GateFunction::Silu };

pub(super) fn read(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    let hyper = Hyperparameters::read(&model.metadata, NAME)?;
    let rope = read_rotary(&hyper, RopePairing::Halves, None)?;
    let rules = AttentionRules::uniform(&hyper, rope)?;
    build(&hyper, TensorSource::new(model), TRAITS, rules, 1.0)
}
