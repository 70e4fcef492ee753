//! Products with superblocks of 256 weights: per block of 32, `dx · (d · p - dmin · n)` or `(d · dx) · p`,
//! where `p` sums integer scales times integer products and `n` integer minima times code sums, all exact.

use super::{Input, Sums, rows_of};
use crate::quantise::Block;
use crate::simd::Simd;
use crate::tiles::{LANES, Panel};
use crate::weights::SuperFormat;

/// The products of a block with one row: of both halves, or of all 32 in the first.
type Products<S> = [<S as Simd>::I; 2];

macro_rules! product {
    ($name:ident, $format:expr, $codes:ident) => {
        #[inline(always)]
        pub(super) fn $name<S: Simd, const T: usize>(
            s: S,
            group: &[u8],
            slab: usize,
            input: Input<'_>,
            first: usize,
            out: &mut [Panel],
        ) {
            const FORMAT: SuperFormat = $format;
            for lane in (0..LANES).step_by(S::LANES) {
                let mut sums = Sums::<S, T>::new(s, slab);
                for (b, block) in group.chunks_exact(FORMAT.bytes()).enumerate() {
                    for pair in 0..4 {
                        let x = [0, 1].map(|k| rows_of::<T>(input, b * 8 + pair * 2 + k, first));
                        let products = $codes::<S, T>(s, FORMAT, block, pair, lane, x);
                        for k in 0..2 {
                            let j = pair * 2 + k;
                            for t in 0..T {
                                let term = term(s, FORMAT, block, j, lane, &x[k][t], products[k][t]);
                                sums.add(s, t, term);
                            }
                            sums.step(s);
                        }
                    }
                }
                sums.store(s, lane, out);
            }
        }
    };
}

product!(q2k, SuperFormat::Q2K, nibbles);
product!(q3k, SuperFormat::Q3K, nibbles);
product!(q4k, SuperFormat::Q4K, nibbles);
product!(q5k, SuperFormat::Q5K, bytes);
product!(q6k, SuperFormat::Q6K, bytes);

/// Products of two blocks of nibbles with T rows.
#[inline(always)]
fn nibbles<S: Simd, const T: usize>(
    s: S,
    format: SuperFormat,
    block: &[u8],
    pair: usize,
    lane: usize,
    x: [&[Block; T]; 2],
) -> [[Products<S>; T]; 2] {
    let is_halved = format.scales() == 16;
    let mut small = [[[s.zero_small(); 2]; T]; 2];
    for chunk in 0..8 {
        let at = ((pair * 8 + chunk) * LANES + lane) * 4;
        let raw = s.load_codes(&block[at..][..S::LANES * 4]);
        let (low, high) = (s.low(raw), s.high(raw));
        let half = if is_halved { chunk / 4 } else { 0 };
        for t in 0..T {
            let [first, second] = [0, 1].map(|k| s.codes(&x[k][t].codes, chunk));
            small[0][t][half] = s.dot_small(small[0][t][half], low, first);
            small[1][t][half] = s.dot_small(small[1][t][half], high, second);
        }
    }
    small.map(|rows| rows.map(|halves| halves.map(|sum| s.finish_small(sum))))
}

/// Products of two blocks of bytes with T rows.
#[inline(always)]
fn bytes<S: Simd, const T: usize>(
    s: S,
    format: SuperFormat,
    block: &[u8],
    pair: usize,
    lane: usize,
    x: [&[Block; T]; 2],
) -> [[Products<S>; T]; 2] {
    let is_halved = format.scales() == 16;
    let mut sums = [[[s.zero_sum(); 2]; T]; 2];
    for k in 0..2 {
        for chunk in 0..8 {
            let at = (((pair * 2 + k) * 8 + chunk) * LANES + lane) * 4;
            let raw = s.load_codes(&block[at..][..S::LANES * 4]);
            let half = if is_halved { chunk / 4 } else { 0 };
            for t in 0..T {
                let codes = s.codes(&x[k][t].codes, chunk);
                sums[k][t][half] = s.dot_unsigned(sums[k][t][half], raw, codes);
            }
        }
    }
    sums.map(|rows| rows.map(|halves| halves.map(|sum| s.finish_unsigned(sum))))
}

/// What block `j` of a superblock adds for one row.
#[inline(always)]
fn term<S: Simd>(
    s: S,
    format: SuperFormat,
    block: &[u8],
    j: usize,
    lane: usize,
    x: &Block,
    products: Products<S>,
) -> S::F {
    let scales = format.code_bytes();
    let minima = scales + LANES * format.scales();
    let halves = if format.has_minima() { minima + LANES * format.scales() } else { minima };
    let d = s.load_half(&block[halves + lane * 2..][..S::LANES * 2]);
    let per_block = format.scales() / 8;
    let byte = |plane: usize, k: usize| &block[plane + (j * per_block + k) * LANES + lane..][..S::LANES];
    // A scale times a product is exact, and so is the sum of two: below 2²⁴.
    let scaled = |k: usize, sum: i32| {
        let i = s.offset(products[k], -format.zero() * sum);
        let scale = if format.has_minima() { s.load_u8(byte(scales, k)) } else { s.load_i8(byte(scales, k)) };
        s.mul(scale, s.to_f(i))
    };
    let p =
        if per_block == 2 { s.add(scaled(0, x.halves[0]), scaled(1, x.halves[1])) } else { scaled(0, x.sum) };
    if !format.has_minima() {
        return s.mul(s.mul(d, s.splat(x.scale)), p);
    }
    let dmin = s.load_half(&block[halves + (LANES + lane) * 2..][..S::LANES * 2]);
    let minimum = |k: usize, sum: i32| s.mul(s.load_u8(byte(minima, k)), s.splat(sum as f32));
    let n = if per_block == 2 {
        s.add(minimum(0, x.halves[0]), minimum(1, x.halves[1]))
    } else {
        minimum(0, x.sum)
    };
    s.mul(s.splat(x.scale), s.sub(s.mul(d, p), s.mul(dmin, n)))
}
