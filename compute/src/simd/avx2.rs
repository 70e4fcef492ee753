//! AVX2 with F16C: eight lanes. Products of codes by `maddubs`, whose 16-bit sums hold eight chunks of
//! nibbles (8 · 2 · 15 · 127 = 30,480) and one of wider codes (2 · 128 · 127 = 32,512).
#![allow(unsafe_code, reason = "instructions that the type's existence proves to be there")]

use std::arch::x86_64::*;

use super::{Codes, Kernel, ROUNDER, ROUNDER_BITS, Simd};

/// Proof that AVX2 and F16C are there.
#[derive(Debug, Clone, Copy)]
pub struct Avx2(());

impl Avx2 {
    /// `None` on a processor without them.
    pub fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")).then_some(Self(()))
    }
}

/// What the two sets of 256-bit instructions have in common.
macro_rules! eight_lanes {
    ($features:literal) => {
        const LANES: usize = 8;
        const TILE: usize = 4;
        type F = __m256;
        type I = __m256i;
        type Raw = __m256i;
        type X = __m256i;
        type Small = __m256i;
        type Sum = __m256i;

        #[inline(always)]
        fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
            #[target_feature(enable = $features)]
            fn enabled<S: Simd, K: Kernel>(simd: S, kernel: K) -> K::Output {
                kernel.run(simd)
            }
            // SAFETY: `self` exists, so the processor has these features.
            unsafe { enabled(self, kernel) }
        }
        #[inline(always)]
        fn splat(self, value: f32) -> __m256 {
            // SAFETY: here and below, `self` exists, so the processor has the instruction.
            unsafe { _mm256_set1_ps(value) }
        }
        #[inline(always)]
        fn add(self, a: __m256, b: __m256) -> __m256 {
            // SAFETY: as above.
            unsafe { _mm256_add_ps(a, b) }
        }
        #[inline(always)]
        fn sub(self, a: __m256, b: __m256) -> __m256 {
            // SAFETY: as above.
            unsafe { _mm256_sub_ps(a, b) }
        }
        #[inline(always)]
        fn mul(self, a: __m256, b: __m256) -> __m256 {
            // SAFETY: as above.
            unsafe { _mm256_mul_ps(a, b) }
        }
        #[inline(always)]
        fn div(self, a: __m256, b: __m256) -> __m256 {
            // SAFETY: as above.
            unsafe { _mm256_div_ps(a, b) }
        }
        #[inline(always)]
        fn max(self, a: __m256, b: __m256) -> __m256 {
            // SAFETY: as above. The instruction gives its second operand when one is a NaN.
            unsafe { _mm256_max_ps(b, a) }
        }
        #[inline(always)]
        fn min(self, a: __m256, b: __m256) -> __m256 {
            // SAFETY: as above.
            unsafe { _mm256_min_ps(b, a) }
        }
        #[inline(always)]
        fn load(self, from: &[f32]) -> __m256 {
            assert!(from.len() >= 8);
            // SAFETY: eight elements are there.
            unsafe { _mm256_loadu_ps(from.as_ptr()) }
        }
        #[inline(always)]
        fn store(self, to: &mut [f32], value: __m256) {
            assert!(to.len() >= 8);
            // SAFETY: eight elements are there.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), value) }
        }
        #[inline(always)]
        fn load_half(self, from: &[u8]) -> __m256 {
            assert!(from.len() >= 16);
            // SAFETY: sixteen bytes are there.
            unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast())) }
        }
        #[inline(always)]
        fn load_brain(self, from: &[u8]) -> __m256 {
            assert!(from.len() >= 16);
            // SAFETY: sixteen bytes are there.
            unsafe {
                let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.as_ptr().cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
            }
        }
        #[inline(always)]
        fn load_bytes(self, from: &[u8]) -> __m256 {
            assert!(from.len() >= 32);
            // SAFETY: 32 bytes are there.
            unsafe { _mm256_loadu_ps(from.as_ptr().cast()) }
        }
        #[inline(always)]
        fn load_i8(self, from: &[u8]) -> __m256 {
            assert!(from.len() >= 8);
            // SAFETY: eight bytes are there.
            unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.as_ptr().cast()))) }
        }
        #[inline(always)]
        fn load_u8(self, from: &[u8]) -> __m256 {
            assert!(from.len() >= 8);
            // SAFETY: eight bytes are there.
            unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.as_ptr().cast()))) }
        }
        #[inline(always)]
        fn round(self, a: __m256) -> __m256i {
            // SAFETY: as above.
            unsafe {
                let sum = _mm256_castps_si256(_mm256_add_ps(a, _mm256_set1_ps(ROUNDER)));
                _mm256_sub_epi32(sum, _mm256_set1_epi32(ROUNDER_BITS))
            }
        }
        #[inline(always)]
        fn to_f(self, a: __m256i) -> __m256 {
            // SAFETY: as above.
            unsafe { _mm256_cvtepi32_ps(a) }
        }
        #[inline(always)]
        fn power(self, a: __m256i) -> __m256 {
            // SAFETY: as above.
            unsafe {
                let biased = _mm256_add_epi32(a, _mm256_set1_epi32(127));
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
            }
        }
        #[inline(always)]
        fn offset(self, a: __m256i, value: i32) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_add_epi32(a, _mm256_set1_epi32(value)) }
        }
        #[inline(always)]
        fn store_i(self, to: &mut [i32], value: __m256i) {
            assert!(to.len() >= 8);
            // SAFETY: eight elements are there.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
        }
        #[inline(always)]
        fn magnitude_bits(self, a: __m256) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(0x7fff_ffff)) }
        }
        #[inline(always)]
        fn max_i(self, a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_max_epi32(a, b) }
        }
        #[inline(always)]
        fn zero_i(self) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_setzero_si256() }
        }
        #[inline(always)]
        fn load_codes(self, from: &[u8]) -> __m256i {
            assert!(from.len() >= 32);
            // SAFETY: 32 bytes are there.
            unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
        }
        #[inline(always)]
        fn low(self, raw: __m256i) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_and_si256(raw, _mm256_set1_epi8(15)) }
        }
        #[inline(always)]
        fn high(self, raw: __m256i) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_and_si256(_mm256_srli_epi16::<4>(raw), _mm256_set1_epi8(15)) }
        }
        #[inline(always)]
        fn codes(self, codes: &Codes, chunk: usize) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_set1_epi32(codes[chunk] as i32) }
        }
        #[inline(always)]
        fn zero_small(self) -> __m256i {
            self.zero_i()
        }
        #[inline(always)]
        fn zero_sum(self) -> __m256i {
            self.zero_i()
        }
        #[inline(always)]
        fn finish_unsigned(self, sum: __m256i) -> __m256i {
            sum
        }
    };
}
pub(super) use eight_lanes;

impl Simd for Avx2 {
    eight_lanes!("avx2,f16c");

    #[inline(always)]
    fn dot_small(self, sum: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        // SAFETY: `self` exists, so the processor has the instruction.
        unsafe { _mm256_add_epi16(sum, _mm256_maddubs_epi16(weights, x)) }
    }
    #[inline(always)]
    fn finish_small(self, sum: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_madd_epi16(sum, _mm256_set1_epi16(1)) }
    }
    #[inline(always)]
    fn dot_unsigned(self, sum: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let pairs = _mm256_maddubs_epi16(weights, x);
            _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        }
    }
    #[inline(always)]
    fn dot_signed(self, sum: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        // The sign moves from the weight to the activation, which is never -128.
        // SAFETY: as above.
        unsafe { self.dot_unsigned(sum, _mm256_abs_epi8(weights), _mm256_sign_epi8(x, weights)) }
    }
    #[inline(always)]
    fn finish_signed(self, sum: __m256i, _codes_sum: i32) -> __m256i {
        sum
    }
}
