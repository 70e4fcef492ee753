//! mistral3: Ministral 3 and Mistral Small 3 and 4, their text part. As llama, with queries that grow with
//! their position.

use fanlight_messages::program::{QueryFactor, RopePairing};

use super::decoder::{AttentionRules, Scales, build};
use super::error::ArchError;
use super::hyper::Hyperparameters;
use super::llama::TRAITS;
use super::rope::{original_context_len, read_rotary};
use super::tensors::TensorSource;
use crate::gguf::ModelFile;
use crate::spec::ModelSpec;

/// `general.architecture`.
pub(super) const NAME: &str = "mistral3";

/// How fast queries grow.
const TEMPERATURE: &str = "attention.temperature_scale";

pub(super) fn read(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    let hyper = Hyperparameters::read(model, NAME, &[TEMPERATURE])?;
    let mut rope = read_rotary(&hyper, RopePairing::Adjacent, None)?;
    if let Some(gain) = hyper.positive(TEMPERATURE)? {
        rope.query_factor =
            Some(QueryFactor { gain: f64::from(gain), period: original_context_len(&hyper)? });
    }
    let rules = AttentionRules::windowed(&hyper, rope)?;
    build(&hyper, TensorSource::new(model), TRAITS, rules, Scales::NONE)
}
