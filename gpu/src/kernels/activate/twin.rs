//! The plain gate: `f(gate) · up` in f64.

use crate::kernels::testing::ROUNDING;
use crate::kernels::testing::quantised::Element;

/// The sigmoid's argument: the gate itself for SiLU; 2√(2/π)(x + 0.044715 x³) for the tanh form of GELU,
/// since (1 + tanh(z)) / 2 is the sigmoid of 2z.
fn argument(gate: f64, gelu: bool) -> f64 {
    if gelu { 2.0 * (2.0 / std::f64::consts::PI).sqrt() * (gate + 0.044715 * gate.powi(3)) } else { gate }
}

/// One element; without a gate `gate` is the up projection and `up` is 1. GELU is computed in its published form, with tanh, not in the kernel's.
///
/// Bound: fourteen roundings of exp2 (3 units in Vulkan), the sum, the reciprocal and the products. An error
/// of the exponent counts as far as the sigmoid follows it: 1 - σ of twelve roundings of the argument (its
/// own four, the scaling to base two, and 2 units of exp2 per unit of exponent). The kernel caps the exponent
/// at 126.
pub(super) fn activate(gate: f32, up: f32, gelu: bool) -> Element {
    let (gate, up) = (f64::from(gate), f64::from(up));
    let z = argument(gate, gelu);
    let sigmoid = if z > 0.0 { 1.0 / (1.0 + (-z).exp()) } else { z.exp() / (1.0 + z.exp()) };
    let value = if gelu { 0.5 * gate * (1.0 + (z / 2.0).tanh()) * up } else { gate * sigmoid * up };
    // 1 + tanh cancels where the sigmoid is small: there the f64 twin itself is off by 2⁻⁵³ of the gate.
    let own = if gelu { (gate * up).abs() * 2f64.powi(-52) } else { 0.0 };
    let roundings = 14.0 + (1.0 - sigmoid) * z.abs().min(200.0) * 12.0;
    let capped = (gate * up).abs() * 2f64.powi(-125);
    Element {
        value,
        bound: roundings * ROUNDING * (gate * sigmoid * up).abs()
            + own
            + capped
            + f64::from(f32::MIN_POSITIVE),
    }
}
