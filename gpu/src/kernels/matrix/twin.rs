//! The plain matrix product, for the lane kernel and the GEMM: `y[n, r] = Σ over k of w[r, k] · x[n, k]`.

use crate::kernels::repack::twin::Weight;
use crate::kernels::testing::Sum;

/// Products of every row of `weights` (`[rows, columns]`) with one input row.
pub(in crate::kernels) fn product(weights: &[Weight], input: &[f64]) -> Vec<Sum> {
    weights
        .chunks_exact(input.len())
        .map(|row| {
            let mut sum = Sum::default();
            for (weight, x) in row.iter().zip(input) {
                sum.add(weight.value * x, weight.magnitude * x.abs());
            }
            sum
        })
        .collect()
}
