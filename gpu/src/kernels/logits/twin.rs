//! The plain scale and soft cap of one logit.

use crate::kernels::testing::{ROUNDING, Wanted};

/// `cap · tanh(scale · logit / cap)` in f64, where `cap` 0 means none.
///
/// Bound: the scale, the quotient (a reciprocal and a product) and the last product round, and their error
/// passes on by the slope of the tangent, at most 1; the tangent itself may be off by 2⁻¹⁰·⁵ of its own value
/// in WGSL where it is made of `sinh / cosh`, and by less than 2⁻²¹ on every driver seen.
pub(super) fn capped(logit: f32, scale: f32, cap: f32) -> Wanted {
    let x = f64::from(scale) * f64::from(logit);
    let cap = f64::from(cap);
    if cap == 0.0 {
        return Wanted::Near { value: x, bound: x.abs() * ROUNDING + 1e-37 };
    }
    let value = cap * (x / cap).tanh();
    Wanted::Near { value, bound: 4.0 * ROUNDING * x.abs().min(10.0 * cap) + cap * 2f64.powi(-21) + 1e-37 }
}
