//! The plain RMS norm: `residual += delta` (itself normalised first where there is a post norm), then
//! `output = residual / sqrt(mean(residual²) + ε) · weight`.

use crate::kernels::testing::Sum;

/// A row after the kernel.
pub(super) struct Row {
    pub(super) residual: Vec<Sum>,
    pub(super) output: Vec<Sum>,
}

fn scale(row: impl ExactSizeIterator<Item = f64>, epsilon: f32) -> f64 {
    let len = row.len() as f64;
    1.0 / (row.map(|x| x * x).sum::<f64>() / len + f64::from(epsilon)).sqrt()
}

/// Normalises one row.
pub(super) fn normalize(
    residual: &[f32],
    delta: Option<&[f32]>,
    post_norm: Option<&[f32]>,
    weight: &[f32],
    epsilon: f32,
) -> Row {
    let mut added: Vec<f64> = match delta {
        Some(delta) => delta.iter().map(|x| f64::from(*x)).collect(),
        None => vec![0.0; residual.len()],
    };
    if let Some(post_norm) = post_norm {
        let scale = scale(added.iter().copied(), epsilon);
        added.iter_mut().zip(post_norm).for_each(|(x, w)| *x *= scale * f64::from(*w));
    }
    let residual: Vec<Sum> = residual
        .iter()
        .zip(&added)
        .map(|(x, d)| Sum { value: f64::from(*x) + d, magnitude: f64::from(*x).abs() + d.abs() })
        .collect();
    let scale = scale(residual.iter().map(|x| x.value), epsilon);
    let output = residual
        .iter()
        .zip(weight)
        .map(|(x, w)| {
            let factor = scale * f64::from(*w);
            Sum { value: x.value * factor, magnitude: x.magnitude * factor.abs() }
        })
        .collect();
    Row { residual, output }
}
