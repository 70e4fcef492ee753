//! smollm3: SmolLM3. As llama, but each fourth layer leaves positions out.

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
pub(super) const NAME: &str = "smollm3";

/// Of so many layers in a row the last one leaves positions out. No key says so.
const PERIOD: usize = 4;

pub(super) fn read(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    let hyper = Hyperparameters::read(model, NAME, &[])?;
    let rope = read_rotary(&hyper, RopePairing::Adjacent, None)?;
    let mut rules = AttentionRules::windowed(&hyper, rope)?;
    rules.layers.iter_mut().skip(PERIOD - 1).step_by(PERIOD).for_each(|layer| layer.rope = None);
    build(&hyper, TensorSource::new(model), TRAITS, rules, Scales::NONE)
}
