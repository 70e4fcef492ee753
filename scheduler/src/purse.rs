//! What speculation may still lose against plain decoding.

/// What a model starts with, in plain steps: enough to try a tree of eight nodes where each costs a plain
/// step.
const START: f64 = 7.0;
/// What it earns by decoding, of a token's plain time.
const INCOME: f64 = 0.01;
/// The most that it holds, in plain steps: gains beyond it are not gambled with.
const FULL: f64 = 24.0;

/// An account in plain steps: losses are paid from it, gains and a small income go in. As nothing is tried
/// that it cannot pay, decoding loses little more than the start and the income, whatever a device or a
/// text does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Purse {
    steps: f64,
}

impl Default for Purse {
    fn default() -> Self {
        Self { steps: START }
    }
}

impl Purse {
    /// `tokens` were emitted in a time in which plain decoding makes `plain_tokens`.
    pub fn book(&mut self, tokens: f64, plain_tokens: f64) {
        self.steps = (self.steps + INCOME * tokens + tokens - plain_tokens).min(FULL);
    }

    /// Whether a loss of so many plain steps can be paid.
    pub fn affords(&self, loss_steps: f64) -> bool {
        self.steps >= loss_steps.max(0.0)
    }
}
