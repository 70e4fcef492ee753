//! The plain RMS norm: `residual += scale · delta` (biased and normalised first where there is a bias and a post
//! norm), then `output = residual / sqrt(mean(residual²) + ε) · weight`, or the residual itself.

use crate::kernels::testing::Sum;

/// What is added to the residual.
#[derive(Clone, Copy)]
pub(super) struct Delta<'a> {
    pub(super) row: &'a [f32],
    pub(super) bias: Option<&'a [f32]>,
    pub(super) post_norm: Option<&'a [f32]>,
    pub(super) scale: f32,
}

impl Delta<'_> {
    fn added(self, epsilon: f32) -> Vec<f64> {
        let mut added: Vec<f64> = self.row.iter().map(|x| f64::from(*x)).collect();
        if let Some(bias) = self.bias {
            added.iter_mut().zip(bias).for_each(|(x, b)| *x += f64::from(*b));
        }
        if let Some(post_norm) = self.post_norm {
            let scale = scale(added.iter().copied(), epsilon);
            added.iter_mut().zip(post_norm).for_each(|(x, w)| *x *= scale * f64::from(*w));
        }
        added.iter_mut().for_each(|x| *x *= f64::from(self.scale));
        added
    }

    /// Sizes that roundings are relative to: the terms of a biased sum may cancel.
    fn magnitudes(self, added: &[f64]) -> Vec<f64> {
        let Some(bias) = self.bias else { return added.iter().map(|x| x.abs()).collect() };
        let terms = self.row.iter().zip(bias).zip(added);
        let size = |((x, b), added): ((&f32, &f32), &f64)| {
            let sum = f64::from(*x) + f64::from(*b);
            let grown = if sum == 0.0 { 0.0 } else { (added / sum).abs() };
            (f64::from(*x).abs() + f64::from(*b).abs()) * grown
        };
        terms.map(size).collect()
    }
}

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
    delta: Option<Delta<'_>>,
    weight: Option<&[f32]>,
    epsilon: f32,
) -> Row {
    let added = delta.map_or(vec![0.0; residual.len()], |delta| delta.added(epsilon));
    let sizes = delta.map_or(vec![0.0; residual.len()], |delta| delta.magnitudes(&added));
    let residual: Vec<Sum> = residual
        .iter()
        .zip(added.iter().zip(sizes))
        .map(|(x, (d, size))| Sum { value: f64::from(*x) + d, magnitude: f64::from(*x).abs() + size })
        .collect();
    let scale = scale(residual.iter().map(|x| x.value), epsilon);
    let output = residual
        .iter()
        .enumerate()
        .map(|(e, x)| {
            let factor = weight.map_or(1.0, |weight| scale * f64::from(weight[e]));
            Sum { value: x.value * factor, magnitude: x.magnitude * factor.abs() }
        })
        .collect();
    Row { residual, output }
}
