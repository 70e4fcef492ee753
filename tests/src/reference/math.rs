//! The small functions of the forward pass, in f64.

/// `x / sqrt(mean(x²) + epsilon) · weight`, the weights repeated over `x` (per head, or once).
pub fn rms_norm(x: &mut [f64], weight: &[f32], epsilon: f64) {
    for head in x.chunks_exact_mut(weight.len()) {
        let mean_square = head.iter().map(|v| v * v).sum::<f64>() / head.len() as f64;
        let scale = 1.0 / (mean_square + epsilon).sqrt();
        head.iter_mut().zip(weight).for_each(|(v, &w)| *v *= scale * f64::from(w));
    }
}

/// Inner product in f64, in eight lanes so that the compiler can use vectors.
pub fn dot(weights: &[f32], x: &[f64]) -> f64 {
    let mut lanes = [0.0_f64; 8];
    let (w, x) = (weights.chunks_exact(8), x.chunks_exact(8));
    let tail: f64 = w.remainder().iter().zip(x.remainder()).map(|(&w, x)| f64::from(w) * x).sum();
    for (w, x) in w.zip(x) {
        for lane in 0..8 {
            lanes[lane] += f64::from(w[lane]) * x[lane];
        }
    }
    lanes.iter().sum::<f64>() + tail
}

/// Inner product of two f64 rows.
pub fn dot_f64(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// x · sigmoid(x).
pub fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// The tanh approximation of GELU.
pub fn gelu_tanh(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
}

/// In-place softmax.
pub fn softmax(x: &mut [f64]) {
    let peak = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    x.iter_mut().for_each(|v| *v = (*v - peak).exp());
    let total: f64 = x.iter().sum();
    x.iter_mut().for_each(|v| *v /= total);
}

/// Natural logarithm of the softmax.
pub fn log_softmax(logits: &[f64]) -> Vec<f64> {
    let peak = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total = logits.iter().map(|v| (v - peak).exp()).sum::<f64>().ln() + peak;
    logits.iter().map(|v| v - total).collect()
}

/// Index of the largest element, the lowest of equals.
pub fn argmax(x: &[f64]) -> u32 {
    let best = x
        .iter()
        .enumerate()
        .fold((0, f64::NEG_INFINITY), |best, (i, &v)| if v > best.1 { (i, v) } else { best });
    best.0 as u32
}

/// What remains of a row after rounding to int8 codes with one f32 scale (peak / 127) per 32 elements.
pub fn int8_round_trip(x: &[f64]) -> Vec<f64> {
    let mut out = Vec::with_capacity(x.len());
    for block in x.chunks(32) {
        let peak = block.iter().fold(0.0_f32, |m, v| m.max((*v as f32).abs()));
        let scale = peak / 127.0;
        let codes =
            block.iter().map(|v| if scale == 0.0 { 0.0 } else { (*v as f32 / scale).round_ties_even() });
        out.extend(codes.map(|c| f64::from(c.clamp(-127.0, 127.0)) * f64::from(scale)));
    }
    out
}
