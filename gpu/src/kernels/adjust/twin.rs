//! The plain adjustment of one logit.

use fanlight_messages::sampling::SamplingOptions;

use crate::kernels::testing::Sum;

/// A logit after bias and penalties, in f64; `context` is what its row follows, the reply from
/// `generated_from` on.
pub(super) fn adjusted(
    raw: f32,
    id: u32,
    context: &[u32],
    generated_from: usize,
    options: &SamplingOptions,
) -> Sum {
    let mut x = f64::from(raw);
    let bias = options.logit_bias.iter().find(|(biased, _)| *biased == id).map_or(0.0, |(_, bias)| *bias);
    x += bias;
    let penalty = options.repeat_penalty;
    let mut magnitude = f64::from(raw).abs() + bias.abs();
    if context.iter().rev().take(options.repeat_window as usize).any(|token| *token == id) {
        x = if x > 0.0 { x / penalty } else { x * penalty };
        magnitude *= penalty.max(1.0 / penalty);
    }
    let count = context.iter().skip(generated_from).filter(|token| **token == id).count() as f64;
    if count > 0.0 {
        x -= options.frequency_penalty * count + options.presence_penalty;
        magnitude += (options.frequency_penalty * count).abs() + options.presence_penalty.abs();
    }
    Sum { value: x, magnitude }
}
