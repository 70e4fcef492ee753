//! How many prompt tokens a batch may have, so that it keeps the device for about as long as others may wait.
//! Pure.

use fanlight_messages::limits::{
    PROMPT_BATCH_UNKNOWN, PROMPT_BATCH_US_MAX, PROMPT_TILE, PROMPT_TOKEN_US_UNKNOWN,
};

/// Tokens take so many times as long as the rest of a batch, where that is possible.
const WORTHWHILE: u64 = 4;

/// What a batch took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    tokens: u64,
    us: u64,
}

/// What prompt batches take: a part that every batch has, such as reading the weights, and one for each
/// token. The last two batches of different lengths tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PromptPace {
    last: Option<Sample>,
    other: Option<Sample>,
    /// Tokens of the longest batch that was measured.
    longest: u64,
}

/// The next batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice {
    /// Its tokens, at most.
    pub tokens: usize,
    /// Whether it is awaited before another one is submitted.
    pub is_alone: bool,
}

impl PromptPace {
    /// A batch took this long.
    pub(super) fn measured(&mut self, tokens: u32, us: u64) {
        let sample = Sample { tokens: u64::from(tokens.max(1)), us: us.max(1) };
        if self.last.is_some_and(|last| last.tokens != sample.tokens) {
            self.other = self.last;
        }
        self.last = Some(sample);
        self.longest = self.longest.max(sample.tokens);
    }

    /// What a batch has beside its tokens, and what each token takes, microseconds.
    fn costs(&self) -> Option<(u64, u64)> {
        let last = self.last?;
        let alone = (0, last.us.div_ceil(last.tokens));
        let Some(other) = self.other else { return Some(alone) };
        let (small, large) = if other.tokens < last.tokens { (other, last) } else { (last, other) };
        // A longer batch that took less says nothing.
        let per_token = large.us.saturating_sub(small.us).div_ceil(large.tokens - small.tokens);
        let fixed = small.us.checked_sub(per_token.saturating_mul(small.tokens));
        Some(match fixed {
            Some(fixed) if per_token > 0 => (fixed, per_token),
            _ => (0, large.us.div_ceil(large.tokens).max(alone.1)),
        })
    }

    /// Microseconds of a batch of so many tokens.
    pub(super) fn batch_us(&self, tokens: usize) -> u64 {
        let (fixed, per_token) = self.costs().unwrap_or((0, PROMPT_TOKEN_US_UNKNOWN));
        fixed.saturating_add(per_token.saturating_mul(tokens as u64))
    }

    /// The next batch: as long as `target_us` allows; longer where what a batch has beside its tokens would
    /// be more than a fifth of it, or where it would have few tokens, of which each takes longer. The
    /// second batch is there to tell the two apart: it is twice the first, or short where that took long.
    /// No batch is twice as long as any that was measured.
    pub(super) fn slice(&self, target_us: u64, limit: usize) -> Slice {
        let (Some((fixed, per_token)), Some(last)) = (self.costs(), self.last) else {
            return Slice { tokens: limit.min(PROMPT_BATCH_UNKNOWN as usize), is_alone: true };
        };
        let within = |us: u64| us.saturating_sub(fixed) / per_token;
        let few = within(PROMPT_BATCH_US_MAX / 2).min(u64::from(PROMPT_BATCH_UNKNOWN));
        let worthwhile = if self.other.is_none() && within(PROMPT_BATCH_US_MAX) >= 2 * last.tokens {
            2 * last.tokens
        } else {
            // Beyond a second half of the time must do.
            let most = (fixed.saturating_mul(WORTHWHILE) / per_token).min(within(PROMPT_BATCH_US_MAX));
            most.max(fixed / per_token)
        };
        let tokens = within(target_us).max(worthwhile).max(few).min(2 * self.longest).max(1);
        let tile = u64::from(PROMPT_TILE);
        let whole = if tokens > tile { tokens / tile * tile } else { tokens };
        let tokens = limit.min(whole as usize);
        Slice { tokens, is_alone: self.batch_us(tokens) > target_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET_US: u64 = 100_000;

    /// The batches of a prompt on a device whose batches take `fixed_us` and `token_us` for each token.
    fn batches(fixed_us: u64, token_us: u64, prompt: usize) -> Vec<usize> {
        let (mut pace, mut left, mut lens) = (PromptPace::default(), prompt, Vec::new());
        while left > 0 {
            let tokens = pace.slice(TARGET_US, 512).tokens.min(left);
            pace.measured(tokens as u32, fixed_us + token_us * tokens as u64);
            lens.push(tokens);
            left -= tokens;
        }
        lens
    }

    #[test]
    fn a_fast_device_soon_gets_long_batches() {
        assert_eq!(batches(1_000, 10, 1500)[..7], [16, 32, 64, 128, 256, 512, 492]);
    }

    #[test]
    fn a_slow_device_gets_batches_as_short_as_others_can_wait() {
        let lens = batches(0, 267_000, 64);
        assert_eq!((lens[0], lens[1], lens[2..].iter().max()), (16, 1, Some(&1)));
        let lens = batches(5_000, 3_000, 600);
        assert!(lens[2..].iter().all(|len| 5_000 + 3_000 * *len as u64 <= TARGET_US), "{lens:?}");
        assert!(lens.len() < 25, "and not shorter than that: {lens:?}");
    }

    #[test]
    fn where_the_weights_take_most_of_the_time_batches_are_as_long_as_makes_it_up() {
        // Reading the weights takes half of what others may wait.
        let lens = batches(50_000, 2_000, 900);
        assert!(lens[4..lens.len() - 1].iter().all(|len| (64..=100).contains(len)), "{lens:?}");
        // And ten times of it, far beyond the second that a batch should take: half of the time must do.
        let lens = batches(1_000_000, 20_000, 600);
        assert!(lens[4..lens.len() - 1].iter().all(|len| (32..=64).contains(len)), "{lens:?}");
        // And twice of it, where a second ends it.
        let lens = batches(200_000, 20_000, 600);
        assert!(lens[3..lens.len() - 1].iter().all(|len| (32..=40).contains(len)), "{lens:?}");
    }

    /// The kernels of short batches are slow when a driver first runs them: what a processor with a software
    /// GPU was seen to take.
    #[test]
    fn short_batches_that_take_longer_than_long_ones_shrink_nothing() {
        let mut pace = PromptPace::default();
        for (tokens, us) in [(16, 348_000), (32, 620_000), (4, 4_800_000), (4, 2_900_000), (16, 350_000)] {
            pace.measured(tokens, us);
        }
        let slice = pace.slice(TARGET_US, 512);
        assert!((16..=32).contains(&slice.tokens) && slice.is_alone, "{slice:?}");
    }

    #[test]
    fn times_that_make_no_sense_are_survived() {
        let mut pace = PromptPace::default();
        for (tokens, us) in [(16, 90_000), (8, 200_000), (8, 0), (0, 0), (512, u64::MAX / 8), (1, 1)] {
            pace.measured(tokens, us);
            let slice = pace.slice(TARGET_US, 512);
            assert!((1..=512).contains(&slice.tokens), "{slice:?}");
        }
        assert_eq!(PromptPace::default().slice(0, 512).tokens, 16);
    }
}
