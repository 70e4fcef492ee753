//! Plain attention of one query over the rows it sees: softmax in base two, in f64.

use crate::kernels::testing::{ROUNDING, Wanted};

/// A cached row of one head.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) key: Vec<f32>,
    pub(super) value: Vec<f32>,
}

/// Σ w·v, the maximum score and Σ w over some rows, each with what the kernel may be off.
#[derive(Debug, Clone)]
pub(super) struct Partial {
    pub(super) output: Vec<Wanted>,
    pub(super) maximum: Wanted,
    pub(super) sum: Wanted,
}

/// A score and its bound.
struct Score {
    value: f64,
    bound: f64,
}

/// Scores are inner products of scaled queries (log2(e) included), one fma each; with a soft cap, `cap ·
/// tanh(s / cap)`, whose slope passes on less of that error, plus the error of tanh itself (2⁻²¹, 8 units).
fn score(query: &[f32], key: &[f32], cap: f32) -> Score {
    let terms = query.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k));
    let (value, magnitude) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
    let bound = (query.len() as f64 + 2.0) * ROUNDING * magnitude;
    if cap == 0.0 {
        return Score { value, bound };
    }
    let cap = f64::from(cap);
    let least = (value.abs() - bound).max(0.0) / cap;
    let slope = 1.0 - least.tanh().powi(2);
    Score {
        value: cap * (value / cap).tanh(),
        bound: slope * (bound + value.abs() * 2.0 * ROUNDING) + cap * 2f64.powi(-21),
    }
}

/// Attention over `rows`, none of which is masked; `folds` is how many chunks are folded into one result.
///
/// Bound: a weight 2^(s - m) is off by ln 2 of both scores' errors, by exp2 (3 units and 2 per unit of
/// exponent, Vulkan; weights further than 16 below the maximum no longer count), and each fold rescales it
/// once more.
pub(super) fn attend(query: &[f32], rows: &[&Row], soft_cap: f32, folds: usize) -> Partial {
    let scores: Vec<Score> = rows.iter().map(|row| score(query, &row.key, soft_cap)).collect();
    let maximum = scores.iter().map(|s| s.value).fold(f64::NEG_INFINITY, f64::max);
    let bound = scores.iter().map(|s| s.bound).fold(0.0, f64::max);
    let weights: Vec<f64> = scores.iter().map(|s| (s.value - maximum).exp2()).collect();
    let relative = 2.0 * std::f64::consts::LN_2 * bound + (72.0 + 80.0 * (folds as f64 - 1.0)) * ROUNDING;
    let near =
        |value: f64, size: f64| Wanted::Near { value, bound: size * (relative + 64.0 * ROUNDING) + 1e-37 };
    let sum: f64 = weights.iter().sum();
    let output = (0..rows[0].value.len())
        .map(|e| {
            let terms = rows.iter().zip(&weights).map(|(row, w)| w * f64::from(row.value[e]));
            let (value, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
            near(value, size)
        })
        .collect();
    Partial { output, maximum: Wanted::Near { value: maximum, bound: bound + 1e-37 }, sum: near(sum, sum) }
}
