//! WebAssembly's 128-bit SIMD: four lanes; products of codes in 16 bits, which are exact.
#![allow(unsafe_code, reason = "loads and stores of registers")]

use std::arch::wasm32::*;

use super::{Codes, Kernel, ROUNDER, ROUNDER_BITS, Simd};

/// The module was compiled for it, so it is there.
#[derive(Debug, Clone, Copy)]
pub struct Simd128;

/// Sums of pairs of neighbouring lanes.
#[inline(always)]
fn pairs((low, high): (v128, v128)) -> v128 {
    i32x4_add(i32x4_shuffle::<0, 2, 4, 6>(low, high), i32x4_shuffle::<1, 3, 5, 7>(low, high))
}

#[inline(always)]
fn dot((low, high): (v128, v128), (first, second): (v128, v128), x: v128) -> (v128, v128) {
    (i32x4_add(low, i32x4_dot_i16x8(first, x)), i32x4_add(high, i32x4_dot_i16x8(second, x)))
}

impl Simd for Simd128 {
    const LANES: usize = 4;
    const TILE: usize = 4;
    type F = v128;
    type I = v128;
    type Raw = v128;
    type X = v128;
    type Small = (v128, v128);
    type Sum = (v128, v128);

    #[inline(always)]
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
    #[inline(always)]
    fn splat(self, value: f32) -> v128 {
        f32x4_splat(value)
    }
    #[inline(always)]
    fn add(self, a: v128, b: v128) -> v128 {
        f32x4_add(a, b)
    }
    #[inline(always)]
    fn sub(self, a: v128, b: v128) -> v128 {
        f32x4_sub(a, b)
    }
    #[inline(always)]
    fn mul(self, a: v128, b: v128) -> v128 {
        f32x4_mul(a, b)
    }
    #[inline(always)]
    fn div(self, a: v128, b: v128) -> v128 {
        f32x4_div(a, b)
    }
    #[inline(always)]
    fn max(self, a: v128, b: v128) -> v128 {
        f32x4_pmax(a, b)
    }
    #[inline(always)]
    fn min(self, a: v128, b: v128) -> v128 {
        f32x4_pmin(a, b)
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> v128 {
        assert!(from.len() >= 4);
        // SAFETY: four elements are there; the load needs no alignment.
        unsafe { v128_load(from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn store(self, to: &mut [f32], value: v128) {
        assert!(to.len() >= 4);
        // SAFETY: four elements are there; the store needs no alignment.
        unsafe { v128_store(to.as_mut_ptr().cast(), value) }
    }
    #[inline(always)]
    fn load_half(self, from: &[u8]) -> v128 {
        assert!(from.len() >= 8);
        // SAFETY: eight bytes are there.
        let bits = u32x4_extend_low_u16x8(unsafe { v128_load64_zero(from.as_ptr().cast()) });
        let magnitude = v128_and(bits, u32x4_splat(0x7fff));
        let sign = u32x4_shl(v128_and(bits, u32x4_splat(0x8000)), 16);
        // The exponent is 112 too low, also that of a subnormal: a product with a power of two is exact.
        let power = u32x4_splat((112 + 127) << 23);
        let finite = f32x4_mul(u32x4_shl(magnitude, 13), power);
        let other = v128_or(u32x4_splat(0x7f80_0000), u32x4_shl(v128_and(magnitude, u32x4_splat(0x3ff)), 13));
        let is_finite = i32x4_lt(magnitude, i32x4_splat(0x7c00));
        v128_or(sign, v128_bitselect(finite, other, is_finite))
    }
    #[inline(always)]
    fn load_brain(self, from: &[u8]) -> v128 {
        assert!(from.len() >= 8);
        // SAFETY: eight bytes are there.
        u32x4_shl(u32x4_extend_low_u16x8(unsafe { v128_load64_zero(from.as_ptr().cast()) }), 16)
    }
    #[inline(always)]
    fn load_bytes(self, from: &[u8]) -> v128 {
        assert!(from.len() >= 16);
        // SAFETY: sixteen bytes are there.
        unsafe { v128_load(from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn load_i8(self, from: &[u8]) -> v128 {
        assert!(from.len() >= 4);
        // SAFETY: four bytes are there.
        let bytes = unsafe { v128_load32_zero(from.as_ptr().cast()) };
        f32x4_convert_i32x4(i32x4_extend_low_i16x8(i16x8_extend_low_i8x16(bytes)))
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8]) -> v128 {
        assert!(from.len() >= 4);
        // SAFETY: four bytes are there.
        let bytes = unsafe { v128_load32_zero(from.as_ptr().cast()) };
        f32x4_convert_i32x4(u32x4_extend_low_u16x8(u16x8_extend_low_u8x16(bytes)))
    }
    #[inline(always)]
    fn round(self, a: v128) -> v128 {
        i32x4_sub(f32x4_add(a, f32x4_splat(ROUNDER)), i32x4_splat(ROUNDER_BITS))
    }
    #[inline(always)]
    fn to_f(self, a: v128) -> v128 {
        f32x4_convert_i32x4(a)
    }
    #[inline(always)]
    fn power(self, a: v128) -> v128 {
        i32x4_shl(i32x4_add(a, i32x4_splat(127)), 23)
    }
    #[inline(always)]
    fn offset(self, a: v128, value: i32) -> v128 {
        i32x4_add(a, i32x4_splat(value))
    }
    #[inline(always)]
    fn store_i(self, to: &mut [i32], value: v128) {
        assert!(to.len() >= 4);
        // SAFETY: four elements are there; the store needs no alignment.
        unsafe { v128_store(to.as_mut_ptr().cast(), value) }
    }
    #[inline(always)]
    fn magnitude_bits(self, a: v128) -> v128 {
        v128_and(a, i32x4_splat(0x7fff_ffff))
    }
    #[inline(always)]
    fn max_i(self, a: v128, b: v128) -> v128 {
        i32x4_max(a, b)
    }
    #[inline(always)]
    fn zero_i(self) -> v128 {
        i32x4_splat(0)
    }
    #[inline(always)]
    fn load_codes(self, from: &[u8]) -> v128 {
        self.load_bytes(from)
    }
    #[inline(always)]
    fn low(self, raw: v128) -> v128 {
        v128_and(raw, u8x16_splat(15))
    }
    #[inline(always)]
    fn high(self, raw: v128) -> v128 {
        u8x16_shr(raw, 4)
    }
    #[inline(always)]
    fn codes(self, codes: &Codes, chunk: usize) -> v128 {
        let pair = u64::from(codes[2 * chunk]) | u64::from(codes[2 * chunk + 1]) << 32;
        u64x2_splat(pair)
    }
    #[inline(always)]
    fn zero_small(self) -> (v128, v128) {
        (i32x4_splat(0), i32x4_splat(0))
    }
    #[inline(always)]
    fn dot_small(self, sum: (v128, v128), weights: v128, x: v128) -> (v128, v128) {
        // Nibbles are the same signed or not.
        self.dot_signed(sum, weights, x)
    }
    #[inline(always)]
    fn finish_small(self, sum: (v128, v128)) -> v128 {
        pairs(sum)
    }
    #[inline(always)]
    fn zero_sum(self) -> (v128, v128) {
        self.zero_small()
    }
    #[inline(always)]
    fn dot_unsigned(self, sum: (v128, v128), weights: v128, x: v128) -> (v128, v128) {
        // Codes up to 127 are the same signed or not.
        self.dot_signed(sum, weights, x)
    }
    #[inline(always)]
    fn finish_unsigned(self, sum: (v128, v128)) -> v128 {
        pairs(sum)
    }
    #[inline(always)]
    fn dot_signed(self, sum: (v128, v128), weights: v128, x: v128) -> (v128, v128) {
        dot(sum, (i16x8_extend_low_i8x16(weights), i16x8_extend_high_i8x16(weights)), x)
    }
    #[inline(always)]
    fn finish_signed(self, sum: (v128, v128), _codes_sum: i32) -> v128 {
        pairs(sum)
    }
}
