//! The plain search of a cut: candidates by falling key, weights added until the wanted one is reached.

/// What the passes of a stage leave when only the last digit of the cut is unknown.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reached {
    /// The first two digits of the cut.
    pub(super) prefix: u32,
    /// Weight left to reach among the candidates with those digits.
    pub(super) wanted: f64,
    /// Of all candidates.
    pub(super) total: f64,
    /// Weights of those by the last digit.
    pub(super) histogram: Vec<f64>,
}

/// Bits of the last digit.
const LAST_BITS: u32 = 10;

/// A key that orders as values do.
pub(super) fn key_of(value: f32) -> u32 {
    let bits = value.to_bits() as i32;
    match bits {
        i32::MIN => 0x8000_0000,
        _ if bits < 0 => !bits as u32,
        _ => bits as u32 | 0x8000_0000,
    }
}

/// The mass of a value, in units of 2^-30 of the largest one's.
pub(super) fn mass(value: f32, largest: f32, temperature: f64) -> f64 {
    (30.0 + (f64::from(value) - f64::from(largest)) / temperature * std::f64::consts::LOG2_E).exp2()
}

/// The cut of `candidates` (key and weight) at which `wanted` is reached.
pub(super) fn reach(candidates: &[(u32, f64)], wanted: f64) -> Reached {
    let mut sorted = candidates.to_vec();
    sorted.sort_by_key(|(key, _)| std::cmp::Reverse(*key));
    let mut sum = 0.0;
    let cut = sorted.iter().find(|(_, weight)| {
        sum += weight;
        sum >= wanted
    });
    let prefix = cut.expect("all of them reach it").0 >> LAST_BITS;
    let above = sorted.iter().take_while(|(key, _)| key >> LAST_BITS > prefix).map(|(_, weight)| weight);
    let mut histogram = vec![0.0; 1 << LAST_BITS];
    for (key, weight) in sorted.iter().filter(|(key, _)| key >> LAST_BITS == prefix) {
        histogram[(key & ((1 << LAST_BITS) - 1)) as usize] += weight;
    }
    let total = candidates.iter().map(|(_, weight)| weight).sum();
    Reached { total, prefix: prefix << LAST_BITS, wanted: wanted - above.sum::<f64>(), histogram }
}
