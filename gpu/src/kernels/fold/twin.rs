//! The plain fold: all chunks that a row sees, weighted by `2^m`, in f64.

use crate::kernels::testing::Sum;

/// What the split kernel leaves of a chunk: Σ w·v, maximum score (base two), Σ w.
#[derive(Debug, Clone)]
pub(super) struct Chunk {
    pub(super) output: Vec<f32>,
    pub(super) maximum: f32,
    pub(super) sum: f32,
}

/// Chunks of 64 that a position sees: those from `position - window + 1` on (all of them without a window),
/// up to its own.
pub(super) fn seen(position: usize, window: usize) -> std::ops::RangeInclusive<usize> {
    let first = if window == 0 { 0 } else { (position + 1).saturating_sub(window) };
    first / 64..=position / 64
}

/// The attention output of one head.
pub(super) fn fold(chunks: &[Chunk]) -> Vec<Sum> {
    let top = chunks.iter().map(|c| f64::from(c.maximum)).fold(f64::NEG_INFINITY, f64::max);
    let weight = |c: &Chunk| (f64::from(c.maximum) - top).exp2();
    let sum: f64 = chunks.iter().map(|c| f64::from(c.sum) * weight(c)).sum();
    (0..chunks[0].output.len())
        .map(|e| {
            let mut output = Sum::default();
            for chunk in chunks {
                let term = f64::from(chunk.output[e]) * weight(chunk) / sum;
                output.add(term, term.abs());
            }
            output
        })
        .collect()
}
