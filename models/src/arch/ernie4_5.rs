//! ernie4_5: dense Ernie 4.5. As llama; its files name themselves.

use fanlight_messages::program::RopePairing;

use super::decoder::{AttentionRules, Scales, build};
use super::error::ArchError;
use super::hyper::Hyperparameters;
use super::llama::TRAITS;
use super::rope::read_rotary;
use super::tensors::TensorSource;
use crate::gguf::ModelFile;
use crate::spec::ModelSpec;

/// `general.architecture`.
pub(super) const NAME: &str = "ernie4_5";

pub(super) fn read(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    let hyper = Hyperparameters::read(model, NAME, &[])?;
    let rope = read_rotary(&hyper, RopePairing::Adjacent, None)?;
    let rules = AttentionRules::windowed(&hyper, rope)?;
    build(&hyper, TensorSource::new(model), TRAITS, rules, Scales::NONE)
}
