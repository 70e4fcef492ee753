//! The plain choice: the largest logit of each slice, ties to the lowest id, and the slice's part of the row
//! hash.

use super::{SLICE_IDS_MIN, SLICES};

/// What a slice leaves: value and id of its maximum (`None` where it has no element), and its hash.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slice {
    pub(super) best: Option<(f32, u32)>,
    pub(super) hash: u32,
}

/// A bijection of the bits for each index: two rounds of xor-shift and multiply, and a last xor-shift.
fn mix(index: u32, bits: u32) -> u32 {
    let mut h = bits ^ index.wrapping_mul(0x9E37_79B9);
    for (shift, factor) in [(16, 0x85EB_CA6B), (13, 0xC2B2_AE35)] {
        h ^= h >> shift;
        h = h.wrapping_mul(factor);
    }
    h ^ (h >> 16)
}

/// The slices of a row; slice s holds `len / 64` (rounded up, at least 256) ids from `s` times that on.
pub(super) fn slices(row: &[f32], hash: bool) -> Vec<Slice> {
    let len = row.len().div_ceil(SLICES as usize).max(SLICE_IDS_MIN as usize);
    (0..SLICES as usize)
        .map(|s| {
            let mut slice = Slice { best: None, hash: 0 };
            for (id, value) in row.iter().enumerate().skip(s * len).take(len) {
                if slice.best.is_none_or(|(best, _)| *value > best) {
                    slice.best = Some((*value, id as u32));
                }
                if hash {
                    slice.hash = slice.hash.wrapping_add(mix(id as u32, value.to_bits()));
                }
            }
            slice
        })
        .collect()
}
