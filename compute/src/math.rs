//! Functions that instruction sets leave open, written down.

use crate::simd::Simd;
use crate::tiles::Panel;

/// 2ˣ for x up to 126; smaller than -126 counts as that. The nearest integer n leaves f in -1/2..=1/2, a
/// polynomial of degree 6 gives 2ᶠ (relative error 1.0e-7), n goes into the exponent.
#[inline(always)]
pub fn exp2<S: Simd>(s: S, x: S::F) -> S::F {
    let x = s.max(s.splat(-126.0), x);
    let n = s.round(x);
    let f = s.sub(x, s.to_f(n));
    let mut p = s.splat(1.535_336_6e-4);
    for c in [1.339_887e-3, 9.618_437e-3, 5.550_332_4e-2, 2.402_264_8e-1, 6.931_472e-1, 1.0] {
        p = s.add(s.mul(p, f), s.splat(c));
    }
    s.mul(p, s.power(n))
}

/// [`exp2`] of one number.
#[inline(always)]
pub fn exp2_one<S: Simd>(s: S, x: f32) -> f32 {
    let mut lanes = [0.0; 16];
    s.store(&mut lanes, exp2(s, s.splat(x)));
    lanes[0]
}

/// 1 / (1 + 2^-z): the sigmoid of z · ln 2. The exponent is capped where the result is exact in f32.
#[inline(always)]
pub fn sigmoid2<S: Simd>(s: S, z: S::F) -> S::F {
    let one = s.splat(1.0);
    let power = exp2(s, s.min(s.splat(126.0), s.sub(s.splat(0.0), z)));
    s.div(one, s.add(one, power))
}

/// Sixteen lanes that sums run in: element i of a row is added to lane i mod 16.
pub type Lanes = Panel;

/// The sum of sixteen lanes, by halves.
#[inline(always)]
pub fn fold_lanes(mut lanes: Lanes) -> f32 {
    for width in [8, 4, 2, 1] {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    lanes[0]
}

/// The reciprocal of the root of the mean of `len` squares plus epsilon.
#[inline(always)]
pub fn rms_scale(squares: f32, len: usize, epsilon: f32) -> f32 {
    1.0 / (squares / len as f32 + epsilon).sqrt()
}

/// `cap · tanh(s / cap)`; tanh(y) is 2 σ(2y) - 1.
#[inline(always)]
pub fn soft_cap<S: Simd>(s: S, values: &mut [f32], cap: f32) {
    let rate = s.splat(2.0 * std::f32::consts::LOG2_E / cap);
    for part in values.chunks_exact_mut(S::LANES) {
        let sigmoid = sigmoid2(s, s.mul(s.load(part), rate));
        let tanh = s.sub(s.mul(sigmoid, s.splat(2.0)), s.splat(1.0));
        s.store(part, s.mul(tanh, s.splat(cap)));
    }
}
