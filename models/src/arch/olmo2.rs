//! olmo2: OLMo 2 and 3. No norms before the blocks, norms behind them, and norms of queries and keys over all
//! heads together. OLMo 3 has windows in three layers of four; these rotate without scaling.

use fanlight_messages::program::{NormSpan, RopePairing};

use super::decoder::{AttentionRules, DecoderTraits, Scales, build};
use super::error::ArchError;
use super::hyper::Hyperparameters;
use super::rope::read_rotary;
use super::tensors::TensorSource;
use super::windows::window;
use crate::gguf::ModelFile;
use crate::spec::{ModelSpec, RopeScaling, RotarySpec};

/// `general.architecture`.
pub(super) const NAME: &str = "olmo2";

const TRAITS: DecoderTraits = DecoderTraits {
    head_norms: Some(NormSpan::Row),
    pre_norms: false,
    post_norms: true,
    ..DecoderTraits::PLAIN
};

/// Of so many layers in a row the last one sees everything.
const PATTERN_DEFAULT: u32 = 4;
/// The table of windowed layers.
const ROPE_WINDOWED: u32 = 1;

pub(super) fn read(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    let hyper = Hyperparameters::read(model, NAME, &[])?;
    let rope = read_rotary(&hyper, RopePairing::Halves, None)?;
    let windowed = RotarySpec { scaling: RopeScaling::None, attention_factor: 1.0, ..rope.clone() };
    let rules = AttentionRules::uniform(&hyper, rope)?;
    let mut rules = rules.with_windows(&hyper, window(&hyper)?, PATTERN_DEFAULT)?;
    if rules.layers.iter().any(|layer| layer.window.is_some()) {
        rules.ropes.push(windowed);
        let layers = rules.layers.iter_mut().filter(|layer| layer.window.is_some());
        layers.for_each(|layer| layer.rope = Some(ROPE_WINDOWED));
    }
    build(&hyper, TensorSource::new(model), TRAITS, rules, Scales::NONE)
}
