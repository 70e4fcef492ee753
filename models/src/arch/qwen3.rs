//! qwen3: dense Qwen 3. No biases; every query and key head is normalised before it rotates; heads are longer
//! than `width / heads`.

use fanlight_messages::program::{GateFunction, RopePairing};

use super::decoder::{AttentionRules, DecoderTraits, build};
use super::error::ArchError;
use super::hyper::Hyperparameters;
use super::rope::read_rotary;
use super::tensors::TensorSource;
use crate::gguf::ModelFile;
use crate::spec::ModelSpec;

/// `general.architecture`.
pub(super) const NAME: &str = "qwen3";

const TRAITS: DecoderTraits =
    DecoderTraits { projection_bias: false, head_norms: true, post_norms: false, gate: GateFunction::Silu };

pub(super) fn read(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    let hyper = Hyperparameters::read(&model.metadata, NAME)?;
    let rope = read_rotary(&hyper, RopePairing::Halves, None)?;
    let rules = AttentionRules::uniform(&hyper, rope)?;
    build(&hyper, TensorSource::new(model), TRAITS, rules, 1.0)
}
