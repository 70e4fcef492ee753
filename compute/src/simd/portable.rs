//! Plain Rust: what the instruction sets are compared with, and what runs where none of them is there.

use super::{Codes, Kernel, ROUNDER, ROUNDER_BITS, Simd, unpack_codes};

/// Sixteen lanes in an array.
#[derive(Debug, Clone, Copy, Default)]
pub struct Portable;

type F = [f32; 16];
type I = [i32; 16];

#[inline(always)]
fn pairwise(a: F, b: F, f: impl Fn(f32, f32) -> f32) -> F {
    let mut out = a;
    for (a, b) in out.iter_mut().zip(b) {
        *a = f(*a, b);
    }
    out
}

#[inline(always)]
fn dot(mut sum: I, weights: [i32; 64], x: [i32; 4]) -> I {
    for (sum, row) in sum.iter_mut().zip(weights.as_chunks::<4>().0) {
        for (weight, x) in row.iter().zip(x) {
            *sum += weight * x;
        }
    }
    sum
}

/// A half as f32, exact.
pub(crate) fn half_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff);
    if magnitude >= 0x7c00 {
        return f32::from_bits(sign | 0x7f80_0000 | (magnitude & 0x3ff) << 13);
    }
    // The exponent is 112 too low, also that of a subnormal: a product with a power of two is exact.
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits((112 + 127) << 23);
    f32::from_bits(sign | scaled.to_bits())
}

impl Simd for Portable {
    const LANES: usize = 16;
    const TILE: usize = 4;
    type F = F;
    type I = I;
    type Raw = [u8; 64];
    type X = [i32; 4];
    type Small = I;
    type Sum = I;

    #[inline(always)]
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
    #[inline(always)]
    fn splat(self, value: f32) -> F {
        [value; 16]
    }
    #[inline(always)]
    fn add(self, a: F, b: F) -> F {
        pairwise(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: F, b: F) -> F {
        pairwise(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: F, b: F) -> F {
        pairwise(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: F, b: F) -> F {
        pairwise(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn max(self, a: F, b: F) -> F {
        pairwise(a, b, |a, b| if b > a { b } else { a })
    }
    #[inline(always)]
    fn min(self, a: F, b: F) -> F {
        pairwise(a, b, |a, b| if b < a { b } else { a })
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> F {
        let mut out = [0.0; 16];
        out.copy_from_slice(&from[..16]);
        out
    }
    #[inline(always)]
    fn store(self, to: &mut [f32], value: F) {
        to[..16].copy_from_slice(&value);
    }
    #[inline(always)]
    fn load_half(self, from: &[u8]) -> F {
        std::array::from_fn(|i| half_to_f32(u16::from_le_bytes([from[2 * i], from[2 * i + 1]])))
    }
    #[inline(always)]
    fn load_brain(self, from: &[u8]) -> F {
        std::array::from_fn(|i| {
            f32::from_bits(u32::from(u16::from_le_bytes([from[2 * i], from[2 * i + 1]])) << 16)
        })
    }
    #[inline(always)]
    fn load_bytes(self, from: &[u8]) -> F {
        let four = |i: usize| [from[4 * i], from[4 * i + 1], from[4 * i + 2], from[4 * i + 3]];
        std::array::from_fn(|i| f32::from_le_bytes(four(i)))
    }
    #[inline(always)]
    fn load_i8(self, from: &[u8]) -> F {
        std::array::from_fn(|i| f32::from(from[i] as i8))
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8]) -> F {
        std::array::from_fn(|i| f32::from(from[i]))
    }
    #[inline(always)]
    fn round(self, a: F) -> I {
        a.map(|a| (a + ROUNDER).to_bits() as i32 - ROUNDER_BITS)
    }
    #[inline(always)]
    fn to_f(self, a: I) -> F {
        a.map(|a| a as f32)
    }
    #[inline(always)]
    fn power(self, a: I) -> F {
        a.map(|a| f32::from_bits(((a + 127) as u32) << 23))
    }
    #[inline(always)]
    fn offset(self, a: I, value: i32) -> I {
        a.map(|a| a + value)
    }
    #[inline(always)]
    fn store_i(self, to: &mut [i32], value: I) {
        to[..16].copy_from_slice(&value);
    }
    #[inline(always)]
    fn magnitude_bits(self, a: F) -> I {
        a.map(|a| (a.to_bits() & 0x7fff_ffff) as i32)
    }
    #[inline(always)]
    fn max_i(self, a: I, b: I) -> I {
        std::array::from_fn(|i| a[i].max(b[i]))
    }
    #[inline(always)]
    fn zero_i(self) -> I {
        [0; 16]
    }
    #[inline(always)]
    fn load_codes(self, from: &[u8]) -> [u8; 64] {
        let mut out = [0; 64];
        out.copy_from_slice(&from[..64]);
        out
    }
    #[inline(always)]
    fn low(self, raw: [u8; 64]) -> [u8; 64] {
        raw.map(|byte| byte & 15)
    }
    #[inline(always)]
    fn high(self, raw: [u8; 64]) -> [u8; 64] {
        raw.map(|byte| byte >> 4)
    }
    #[inline(always)]
    fn codes(self, codes: &Codes, chunk: usize) -> [i32; 4] {
        unpack_codes(codes, chunk)
    }
    #[inline(always)]
    fn zero_small(self) -> I {
        [0; 16]
    }
    #[inline(always)]
    fn dot_small(self, sum: I, weights: [u8; 64], x: [i32; 4]) -> I {
        dot(sum, weights.map(i32::from), x)
    }
    #[inline(always)]
    fn finish_small(self, sum: I) -> I {
        sum
    }
    #[inline(always)]
    fn zero_sum(self) -> I {
        [0; 16]
    }
    #[inline(always)]
    fn dot_unsigned(self, sum: I, weights: [u8; 64], x: [i32; 4]) -> I {
        dot(sum, weights.map(i32::from), x)
    }
    #[inline(always)]
    fn finish_unsigned(self, sum: I) -> I {
        sum
    }
    #[inline(always)]
    fn dot_signed(self, sum: I, weights: [u8; 64], x: [i32; 4]) -> I {
        dot(sum, weights.map(|byte| i32::from(byte as i8)), x)
    }
    #[inline(always)]
    fn finish_signed(self, sum: I, _codes_sum: i32) -> I {
        sum
    }
}
