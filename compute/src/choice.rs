//! The largest logit of a row, and the row's part of the hash.

use crate::simd::{Kernel, Simd};
use crate::tiles::{LANES, Panel};

/// Bits of infinity: magnitudes from here on are not finite.
const INFINITE: i32 = 0x7f80_0000;

/// What a row of logits gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Choice {
    /// The id of the largest logit, the lowest of equal ones.
    pub id: u32,
    /// Sum of `mix(id, bits)` over all ids.
    pub hash: u32,
    /// False when a logit is NaN or infinite.
    pub is_finite: bool,
}

/// Looks through a row.
#[derive(Debug)]
pub struct Choose<'a> {
    /// `[panel][room]`.
    pub logits: &'a [Panel],
    /// Rows that the tile has room for.
    pub room: usize,
    /// Which row.
    pub row: usize,
    /// Ids of the vocabulary.
    pub len: usize,
    /// Whether the hash is wanted.
    pub hashes: bool,
}

/// A bijection of the bits for each index: two rounds of xor-shift and multiply, and a last xor-shift.
#[inline(always)]
fn mix(index: u32, bits: u32) -> u32 {
    let mut h = bits ^ index.wrapping_mul(0x9E37_79B9);
    h = (h ^ h >> 16).wrapping_mul(0x85EB_CA6B);
    h = (h ^ h >> 13).wrapping_mul(0xC2B2_AE35);
    h ^ h >> 16
}

/// Folds a row's sum into the hash of a reply.
pub fn fold_hash(hash: u32, row: u32) -> u32 {
    (hash ^ row).wrapping_mul(0x0100_0193).wrapping_add(0x9E37_79B9)
}

impl Kernel for Choose<'_> {
    type Output = Choice;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Choice {
        let Self { logits, room, row, len, hashes } = self;
        // Lanes beyond the vocabulary must not win.
        let panel = |index: usize| {
            let mut panel = logits[index * room + row];
            for lane in panel.iter_mut().skip(len - index * LANES) {
                *lane = f32::NEG_INFINITY;
            }
            panel
        };
        let (whole, panels) = (len / LANES, len.div_ceil(LANES));
        let (mut largest, mut magnitude) = ([f32::NEG_INFINITY; LANES], s.zero_i());
        for index in 0..panels {
            let panel = if index < whole { logits[index * room + row] } else { panel(index) };
            for lane in (0..LANES).step_by(S::LANES) {
                let x = s.load(&panel[lane..][..S::LANES]);
                let largest = &mut largest[lane..][..S::LANES];
                let max = s.max(s.load(largest), x);
                s.store(largest, max);
                if index < whole {
                    magnitude = s.max_i(magnitude, s.magnitude_bits(x));
                }
            }
        }
        let mut bits = [0; LANES];
        s.store_i(&mut bits, magnitude);
        let tail = &logits[whole.min(panels - 1) * room + row][..len - whole * LANES];
        let is_finite = bits.iter().all(|bits| *bits < INFINITE) && tail.iter().all(|x| x.is_finite());
        let largest = largest.iter().fold(f32::NEG_INFINITY, |max, x| if *x > max { *x } else { max });
        let first = (0..panels).find_map(|index| {
            let panel = if index < whole { logits[index * room + row] } else { panel(index) };
            let is_there = panel.iter().fold(false, |found, x| found | (*x == largest));
            let lane = is_there.then(|| panel.iter().position(|x| *x == largest))??;
            Some((index * LANES + lane) as u32)
        });
        let hash = if hashes { hash_row(logits, room, row, len) } else { 0 };
        Choice { id: first.unwrap_or(0), hash, is_finite }
    }
}

#[inline(always)]
fn hash_row(logits: &[Panel], room: usize, row: usize, len: usize) -> u32 {
    let mut sums = [0u32; LANES];
    for (index, panel) in logits.iter().skip(row).step_by(room).enumerate().take(len.div_ceil(LANES)) {
        let live = LANES.min(len - index * LANES);
        if live == LANES {
            for (lane, sum) in sums.iter_mut().enumerate() {
                *sum = sum.wrapping_add(mix((index * LANES + lane) as u32, panel[lane].to_bits()));
            }
        } else {
            for (lane, sum) in sums.iter_mut().enumerate().take(live) {
                *sum = sum.wrapping_add(mix((index * LANES + lane) as u32, panel[lane].to_bits()));
            }
        }
    }
    sums.iter().fold(0, |sum, lane| sum.wrapping_add(*lane))
}
