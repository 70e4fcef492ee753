//! exaone4: EXAONE 4. No norms before the blocks, norms behind them, normalised heads. The 32B model has
//! windows in three layers of four, and the fourth leaves positions out.

use fanlight_messages::program::{NormSpan, RopePairing};

use super::decoder::{AttentionRules, DecoderTraits, Scales, build};
use super::error::ArchError;
use super::hyper::Hyperparameters;
use super::rope::{read_dimensions, read_rotary};
use super::tensors::TensorSource;
use super::windows::window;
use crate::gguf::ModelFile;
use crate::spec::ModelSpec;

/// `general.architecture`.
pub(super) const NAME: &str = "exaone4";

const TRAITS: DecoderTraits = DecoderTraits {
    head_norms: Some(NormSpan::Head),
    pre_norms: false,
    post_norms: true,
    ..DecoderTraits::PLAIN
};

/// Of so many layers in a row the last one sees everything.
const PATTERN_DEFAULT: u32 = 4;

pub(super) fn read(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    let hyper = Hyperparameters::read(model, NAME, &[])?;
    let mut tensors = TensorSource::new(model);
    let divisors = tensors.optional_vector("rope_freqs.weight".to_owned(), read_dimensions(&hyper)? / 2)?;
    let rope = read_rotary(&hyper, RopePairing::Halves, divisors)?;
    let window = window(&hyper)?;
    let mut rules = AttentionRules::uniform(&hyper, rope)?.with_windows(&hyper, window, PATTERN_DEFAULT)?;
    if rules.layers.iter().any(|layer| layer.window.is_some()) {
        let layers = rules.layers.iter_mut().filter(|layer| layer.window.is_none());
        layers.for_each(|layer| layer.rope = None);
    }
    build(&hyper, tensors, TRAITS, rules, Scales::NONE)
}
