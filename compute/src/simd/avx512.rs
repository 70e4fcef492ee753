//! AVX-512 with VNNI: sixteen lanes.
#![allow(unsafe_code, reason = "instructions that the type's existence proves to be there")]

use std::arch::x86_64::*;

use super::{Codes, Kernel, ROUNDER, ROUNDER_BITS, Simd};

/// Proof that AVX-512 F, BW, VL, DQ and VNNI are there.
#[derive(Debug, Clone, Copy)]
pub struct Avx512(());

impl Avx512 {
    /// `None` on a processor without them.
    pub fn detect() -> Option<Self> {
        let has_all = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vnni")
            && is_x86_feature_detected!("f16c");
        has_all.then_some(Self(()))
    }
}

impl Simd for Avx512 {
    const LANES: usize = 16;
    const TILE: usize = 8;
    type F = __m512;
    type I = __m512i;
    type Raw = __m512i;
    type X = __m512i;
    type Small = __m512i;
    type Sum = __m512i;

    #[inline(always)]
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,f16c")]
        fn enabled<S: Simd, K: Kernel>(simd: S, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` exists, so the processor has these features.
        unsafe { enabled(self, kernel) }
    }
    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        // SAFETY: here and below, `self` exists, so the processor has the instruction.
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: as above. The instruction gives its second operand when one is a NaN.
        unsafe { _mm512_max_ps(b, a) }
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_min_ps(b, a) }
    }
    #[inline(always)]
    fn load(self, from: &[f32]) -> __m512 {
        assert!(from.len() >= 16);
        // SAFETY: sixteen elements are there.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }
    #[inline(always)]
    fn store(self, to: &mut [f32], value: __m512) {
        assert!(to.len() >= 16);
        // SAFETY: sixteen elements are there.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), value) }
    }
    #[inline(always)]
    fn load_half(self, from: &[u8]) -> __m512 {
        assert!(from.len() >= 32);
        // SAFETY: 32 bytes are there.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn load_brain(self, from: &[u8]) -> __m512 {
        assert!(from.len() >= 32);
        // SAFETY: 32 bytes are there.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }
    #[inline(always)]
    fn load_bytes(self, from: &[u8]) -> __m512 {
        assert!(from.len() >= 64);
        // SAFETY: 64 bytes are there.
        unsafe { _mm512_loadu_ps(from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn load_i8(self, from: &[u8]) -> __m512 {
        assert!(from.len() >= 16);
        // SAFETY: sixteen bytes are there.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8]) -> __m512 {
        assert!(from.len() >= 16);
        // SAFETY: sixteen bytes are there.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn round(self, a: __m512) -> __m512i {
        // SAFETY: as above.
        unsafe {
            let sum = _mm512_castps_si512(_mm512_add_ps(a, _mm512_set1_ps(ROUNDER)));
            _mm512_sub_epi32(sum, _mm512_set1_epi32(ROUNDER_BITS))
        }
    }
    #[inline(always)]
    fn to_f(self, a: __m512i) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_cvtepi32_ps(a) }
    }
    #[inline(always)]
    fn power(self, a: __m512i) -> __m512 {
        // SAFETY: as above.
        unsafe {
            let biased = _mm512_add_epi32(a, _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased))
        }
    }
    #[inline(always)]
    fn offset(self, a: __m512i, value: i32) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_add_epi32(a, _mm512_set1_epi32(value)) }
    }
    #[inline(always)]
    fn store_i(self, to: &mut [i32], value: __m512i) {
        assert!(to.len() >= 16);
        // SAFETY: sixteen elements are there.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), value) }
    }
    #[inline(always)]
    fn magnitude_bits(self, a: __m512) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7fff_ffff)) }
    }
    #[inline(always)]
    fn max_i(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_max_epi32(a, b) }
    }
    #[inline(always)]
    fn zero_i(self) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    fn load_codes(self, from: &[u8]) -> __m512i {
        assert!(from.len() >= 64);
        // SAFETY: 64 bytes are there.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn low(self, raw: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_and_si512(raw, _mm512_set1_epi8(15)) }
    }
    #[inline(always)]
    fn high(self, raw: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_and_si512(_mm512_srli_epi16::<4>(raw), _mm512_set1_epi8(15)) }
    }
    #[inline(always)]
    fn codes(self, codes: &Codes, chunk: usize) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_set1_epi32(codes[chunk] as i32) }
    }
    #[inline(always)]
    fn zero_small(self) -> __m512i {
        self.zero_i()
    }
    #[inline(always)]
    fn dot_small(self, sum: __m512i, weights: __m512i, x: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_dpbusd_epi32(sum, weights, x) }
    }
    #[inline(always)]
    fn finish_small(self, sum: __m512i) -> __m512i {
        sum
    }
    #[inline(always)]
    fn zero_sum(self) -> __m512i {
        self.zero_i()
    }
    #[inline(always)]
    fn dot_unsigned(self, sum: __m512i, weights: __m512i, x: __m512i) -> __m512i {
        self.dot_small(sum, weights, x)
    }
    #[inline(always)]
    fn finish_unsigned(self, sum: __m512i) -> __m512i {
        sum
    }
    #[inline(always)]
    fn dot_signed(self, sum: __m512i, weights: __m512i, x: __m512i) -> __m512i {
        // Weights plus 128 are unsigned; what that adds is taken off at the end.
        // SAFETY: as above.
        unsafe { _mm512_dpbusd_epi32(sum, _mm512_xor_si512(weights, _mm512_set1_epi8(-128)), x) }
    }
    #[inline(always)]
    fn finish_signed(self, sum: __m512i, codes_sum: i32) -> __m512i {
        self.offset(sum, -128 * codes_sum)
    }
}
