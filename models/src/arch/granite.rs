//! granite: dense Granite 3 and 4. As llama, with scales of embedding, scores, residual and logits; files may
//! leave positions out.

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
pub(super) const NAME: &str = "granite";

const EMBEDDING: &str = "embedding_scale";
const RESIDUAL: &str = "residual_scale";
const LOGITS: &str = "logit_scale";

pub(super) fn read(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    let hyper = Hyperparameters::read(model, NAME, &[EMBEDDING, RESIDUAL, LOGITS])?;
    let rope = read_rotary(&hyper, RopePairing::Adjacent, None)?;
    let mut rules = AttentionRules::windowed(&hyper, rope)?;
    // So converters mark models without positions.
    if hyper.bool("rope.scaling.finetuned")? == Some(false) {
        rules.layers.iter_mut().for_each(|layer| layer.rope = None);
    }
    let scale = |name| Ok::<_, ArchError>(hyper.positive(name)?.unwrap_or(1.0));
    let scales = Scales {
        embedding: scale(EMBEDDING)?,
        residual: scale(RESIDUAL)?,
        // The file's divides.
        logits: 1.0 / scale(LOGITS)?,
    };
    build(&hyper, TensorSource::new(model), TRAITS, rules, scales)
}
