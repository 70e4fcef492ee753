//! Products with blocks of 32 weights.

use super::{Input, Sums, rows_of};
use crate::quantise::Block;
use crate::simd::Simd;
use crate::tiles::{LANES, Panel};
use crate::weights::BlockFormat;

/// The minimum's share and the scale: `dx · (d · i + m · sx)`, or `(d · dx) · i` without minima.
#[inline(always)]
fn term<S: Simd, const MIN: bool>(s: S, scales: &[u8], lane: usize, x: &Block, i: S::F) -> S::F {
    let d = s.load_half(&scales[lane * 2..][..S::LANES * 2]);
    if MIN {
        let m = s.load_half(&scales[(LANES + lane) * 2..][..S::LANES * 2]);
        let offset = s.mul(m, s.splat(x.sum as f32));
        s.mul(s.splat(x.scale), s.add(s.mul(d, i), offset))
    } else {
        s.mul(s.mul(d, s.splat(x.scale)), i)
    }
}

/// Nibbles: offset by 8, or with a minimum.
#[inline(always)]
pub(super) fn nibbles<S: Simd, const T: usize, const MIN: bool>(
    s: S,
    group: &[u8],
    slab: usize,
    input: Input<'_>,
    first: usize,
    out: &mut [Panel],
) {
    let format = if MIN { BlockFormat::NibbleMin } else { BlockFormat::Nibble };
    for lane in (0..LANES).step_by(S::LANES) {
        let mut sums = Sums::<S, T>::new(s, slab);
        for (b, block) in group.chunks_exact(format.bytes()).enumerate() {
            let x = rows_of::<T>(input, b, first);
            let mut small = [s.zero_small(); T];
            for chunk in 0..4 {
                let raw = s.load_codes(&block[(chunk * LANES + lane) * 4..][..S::LANES * 4]);
                let (low, high) = (s.low(raw), s.high(raw));
                for t in 0..T {
                    small[t] = s.dot_small(small[t], low, s.codes(&x[t].codes, chunk));
                    small[t] = s.dot_small(small[t], high, s.codes(&x[t].codes, chunk + 4));
                }
            }
            for t in 0..T {
                let i = s.finish_small(small[t]);
                let i = if MIN { i } else { s.offset(i, -8 * x[t].sum) };
                sums.add(s, t, term::<S, MIN>(s, &block[LANES * 16..], lane, &x[t], s.to_f(i)));
            }
            sums.step(s);
        }
        sums.store(s, lane, out);
    }
}

/// Bytes: signed, or up to 127 with a minimum.
#[inline(always)]
pub(super) fn bytes<S: Simd, const T: usize, const MIN: bool>(
    s: S,
    group: &[u8],
    slab: usize,
    input: Input<'_>,
    first: usize,
    out: &mut [Panel],
) {
    let format = if MIN { BlockFormat::ByteMin } else { BlockFormat::Byte };
    for lane in (0..LANES).step_by(S::LANES) {
        let mut sums = Sums::<S, T>::new(s, slab);
        for (b, block) in group.chunks_exact(format.bytes()).enumerate() {
            let x = rows_of::<T>(input, b, first);
            let products = signed_products::<S, T>(s, &block[..LANES * 32], lane, x);
            for t in 0..T {
                let i = s.to_f(s.finish_signed(products[t], x[t].sum));
                sums.add(s, t, term::<S, MIN>(s, &block[LANES * 32..], lane, &x[t], i));
            }
            sums.step(s);
        }
        sums.store(s, lane, out);
    }
}

/// Sums of products of 32 int8 codes, `[chunk][row][4]`, with T rows.
#[inline(always)]
pub(crate) fn signed_products<S: Simd, const T: usize>(
    s: S,
    codes: &[u8],
    lane: usize,
    x: &[Block; T],
) -> [S::Sum; T] {
    let mut products = [s.zero_sum(); T];
    for chunk in 0..8 {
        let raw = s.load_codes(&codes[(chunk * LANES + lane) * 4..][..S::LANES * 4]);
        for t in 0..T {
            products[t] = s.dot_signed(products[t], raw, s.codes(&x[t].codes, chunk));
        }
    }
    products
}
