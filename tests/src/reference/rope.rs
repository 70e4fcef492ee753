//! Rotary positions: frequencies under every scaling rule, and the rotation itself.

/// A position rule: the angle of pair `i` at position `p` is `p · frequencies[i]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Radians per position, one per pair.
    pub frequencies: Vec<f64>,
    /// Multiplies cosine and sine.
    pub magnitude: f64,
    /// True when elements `2i` and `2i + 1` form a pair, false when `i` and `i + pairs` do.
    pub is_adjacent: bool,
}

/// How positions beyond the training length are squeezed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scaling {
    /// Not at all.
    None,
    /// Every angle divided by `factor`.
    Linear {
        /// At least 1.
        factor: f64,
    },
    /// YaRN (Peng et al. 2023): low frequencies divided, high ones kept, a ramp between.
    Yarn {
        /// At least 1.
        factor: f64,
        /// Training length in tokens.
        original_context: f64,
        /// Multiplies the magnitude.
        attention_factor: f64,
        /// Turns over the training length above which a frequency is kept.
        beta_fast: f64,
        /// Turns below which it is divided.
        beta_slow: f64,
    },
}

impl Rope {
    /// Frequencies of `rotated_len / 2` pairs. `divisors` (one per pair) come from the file's `rope_freqs`
    /// tensor, which carries the llama 3 rule.
    pub fn new(
        base: f64,
        rotated_len: usize,
        scaling: Scaling,
        divisors: Option<&[f32]>,
        is_adjacent: bool,
    ) -> Self {
        let pairs = rotated_len / 2;
        let plain = |i: usize| {
            let divisor = divisors.map_or(1.0, |d| f64::from(d[i]));
            base.powf(-2.0 * i as f64 / rotated_len as f64) / divisor
        };
        let (frequencies, magnitude) = match scaling {
            Scaling::None => ((0..pairs).map(plain).collect(), 1.0),
            Scaling::Linear { factor } => ((0..pairs).map(|i| plain(i) / factor).collect(), 1.0),
            Scaling::Yarn { factor, original_context, attention_factor, beta_fast, beta_slow } => {
                // The pair whose wave makes `turns` turns over the training length.
                let pair_at = |turns: f64| {
                    let tau = 2.0 * std::f64::consts::PI;
                    rotated_len as f64 * (original_context / (turns * tau)).ln() / (2.0 * base.ln())
                };
                let low = pair_at(beta_fast).floor().max(0.0);
                let high = pair_at(beta_slow).ceil().min(rotated_len as f64 - 1.0);
                let kept = |i: usize| 1.0 - ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                let mixed = |i: usize| plain(i) * (kept(i) + (1.0 - kept(i)) / factor);
                let magnitude = attention_factor * (1.0 + 0.1 * factor.ln());
                ((0..pairs).map(mixed).collect(), magnitude)
            }
        };
        Self { frequencies, magnitude, is_adjacent }
    }

    /// Rotates the first `2 · pairs` elements of a head.
    pub fn rotate(&self, head: &mut [f64], position: usize) {
        let pairs = self.frequencies.len();
        for (i, frequency) in self.frequencies.iter().enumerate() {
            let (sin, cos) = (position as f64 * frequency).sin_cos();
            let (sin, cos) = (sin * self.magnitude, cos * self.magnitude);
            let (a, b) = if self.is_adjacent { (2 * i, 2 * i + 1) } else { (i, i + pairs) };
            (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[a] * sin + head[b] * cos);
        }
    }
}
