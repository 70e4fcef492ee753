//! One head of q, k or v, plainly: bias, RMS norm, rotation by a table of (cos, sin).

use crate::kernels::testing::Sum;

/// What is done to a head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) input: &'a [f32],
    pub(super) bias: Option<&'a [f32]>,
    /// Norm weights.
    pub(super) norm: Option<&'a [f32]>,
    /// The mean square of the row's heads where the norm spans them, else that of this head is taken.
    pub(super) row_mean: Option<f64>,
    pub(super) epsilon: f32,
    /// (cos, sin) of each rotated pair; none for values.
    pub(super) turns: &'a [[f32; 2]],
    /// Pairs are elements 2i and 2i + 1, else i and i + pairs.
    pub(super) adjacent: bool,
    /// Queries are scaled.
    pub(super) scale: f32,
}

impl Head<'_> {
    /// The head's elements.
    pub(super) fn run(self) -> Vec<Sum> {
        let mut x: Vec<Sum> = self
            .input
            .iter()
            .enumerate()
            .map(|(e, x)| {
                let (x, bias) = (f64::from(*x), self.bias.map_or(0.0, |b| f64::from(b[e])));
                Sum { value: x + bias, magnitude: x.abs() + bias.abs() }
            })
            .collect();
        if let Some(norm) = self.norm {
            let own = || x.iter().map(|x| x.value * x.value).sum::<f64>() / x.len() as f64;
            let mean = self.row_mean.unwrap_or_else(own);
            let scale = 1.0 / (mean + f64::from(self.epsilon)).sqrt();
            for (x, w) in x.iter_mut().zip(norm) {
                x.value *= scale * f64::from(*w);
                x.magnitude *= (scale * f64::from(*w)).abs();
            }
        }
        for (i, [cos, sin]) in self.turns.iter().enumerate() {
            let (first, second) = if self.adjacent { (2 * i, 2 * i + 1) } else { (i, i + self.turns.len()) };
            let (a, b) = (x[first], x[second]);
            let (cos, sin) = (f64::from(*cos), f64::from(*sin));
            let magnitude = |c: f64, s: f64| a.magnitude * c.abs() + b.magnitude * s.abs();
            x[first] = Sum { value: a.value * cos - b.value * sin, magnitude: magnitude(cos, sin) };
            x[second] = Sum { value: b.value * cos + a.value * sin, magnitude: magnitude(sin, cos) };
        }
        let scale = f64::from(self.scale);
        for x in &mut x {
            x.value *= scale;
            x.magnitude *= scale.abs();
        }
        x
    }
}
