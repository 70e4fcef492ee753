//! The plain embedding: `x[n, :] = scale · table[token[n], :]`.

use crate::kernels::repack::twin::Weight;
use crate::kernels::testing::Sum;

/// A row of the table (`[rows, columns]` weights), scaled.
pub(super) fn row(table: &[Weight], columns: usize, row: usize, scale: f32) -> Vec<Sum> {
    let scale = f64::from(scale);
    table[row * columns..][..columns]
        .iter()
        .map(|w| Sum { value: scale * w.value, magnitude: scale * w.magnitude })
        .collect()
}
