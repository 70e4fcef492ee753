//! How long submissions take on this device, so that none keeps it longer than others may wait.
//!
//! A driver resets a device that does not answer for some seconds. What may take long is split between layers
//! into submissions that follow each other, and prompts are cut into batches.

use fanlight_messages::draft::{WIDTHS, Width};
use fanlight_messages::limits::{STEP_US_UNKNOWN, SUBMISSION_US_MAX};

use super::prompt_pace::{PromptPace, Slice};

/// What was measured of the model that is placed.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Pace {
    prompt: PromptPace,
    /// Of a plain step, then by nodes as in [`WIDTHS`]; 0 where nothing is known.
    step_us: [u64; WIDTHS.len() + 1],
}

impl Pace {
    /// The next prompt batch, of at most `limit` tokens.
    pub(super) fn prompt_slice(&self, limit: usize) -> Slice {
        self.prompt.slice(SUBMISSION_US_MAX, limit)
    }

    /// Submissions that a prompt batch of `tokens` is split into, so that each takes `cap_us` or less.
    pub(super) fn prompt_parts(&self, tokens: usize, cap_us: u64) -> u32 {
        parts(self.prompt.batch_us(tokens), cap_us)
    }

    /// The same for a step. A width that was never measured takes no more time than as many plain steps.
    pub(super) fn step_parts(&self, width: Width, cap_us: u64) -> u32 {
        let known = |us: u64| (us > 0).then_some(us);
        let plain_us = known(self.step_us[0]).unwrap_or(STEP_US_UNKNOWN);
        let step_us = known(self.step_us[place(width)]);
        parts(step_us.unwrap_or(plain_us.saturating_mul(u64::from(width.rows()))), cap_us)
    }

    /// A prompt batch took this long.
    pub(super) fn prompt(&mut self, tokens: u32, elapsed_us: u64) {
        self.prompt.measured(tokens, elapsed_us);
    }

    /// A window of `steps` steps took this long.
    pub(super) fn window(&mut self, width: Width, steps: u32, elapsed_us: u64) {
        self.step_us[place(width)] = elapsed_us.div_ceil(u64::from(steps.max(1)));
    }
}

fn place(width: Width) -> usize {
    match width {
        Width::Off => 0,
        Width::Nodes(nodes) => {
            WIDTHS.iter().position(|width| *width >= nodes).map_or(WIDTHS.len(), |at| at + 1)
        }
    }
}

fn parts(predicted_us: u64, cap_us: u64) -> u32 {
    u32::try_from(predicted_us.div_ceil(cap_us.max(1))).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_thought_slow_and_what_is_known_is_believed() {
        let mut pace = Pace::default();
        assert!(pace.prompt_parts(16, 100_000) == 16 && pace.prompt_slice(512).tokens == 16);
        assert!(pace.step_parts(Width::Off, 200_000) > 1);
        pace.prompt(512, 25_600);
        pace.window(Width::Off, 2, 60_000);
        assert_eq!((pace.prompt_parts(512, 200_000), pace.step_parts(Width::Off, 200_000)), (1, 1));
        // Never measured: eight plain steps.
        assert_eq!(pace.step_parts(Width::Nodes(8), 200_000), 2);
        pace.window(Width::Nodes(8), 1, 40_000);
        assert_eq!(pace.step_parts(Width::Nodes(8), 200_000), 1);
        assert_eq!(pace.step_parts(Width::Nodes(8), 10_000), 4);
        assert_eq!(pace.step_parts(Width::Nodes(32), 0), 960_000);
    }
}
