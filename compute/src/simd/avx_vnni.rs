//! AVX-VNNI: AVX2 with 8-bit dot products.
#![allow(unsafe_code, reason = "instructions that the type's existence proves to be there")]

use std::arch::x86_64::*;

use super::avx2::eight_lanes;
use super::{Codes, Kernel, ROUNDER, ROUNDER_BITS, Simd};

/// Proof that AVX2, F16C and AVX-VNNI are there.
#[derive(Debug, Clone, Copy)]
pub struct AvxVnni(());

impl AvxVnni {
    /// `None` on a processor without them.
    pub fn detect() -> Option<Self> {
        let has_all = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("avxvnni");
        has_all.then_some(Self(()))
    }
}

impl Simd for AvxVnni {
    eight_lanes!("avx2,f16c,avxvnni");

    #[inline(always)]
    fn dot_small(self, sum: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        // SAFETY: `self` exists, so the processor has the instruction.
        unsafe { _mm256_dpbusd_avx_epi32(sum, weights, x) }
    }
    #[inline(always)]
    fn finish_small(self, sum: __m256i) -> __m256i {
        sum
    }
    #[inline(always)]
    fn dot_unsigned(self, sum: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        self.dot_small(sum, weights, x)
    }
    #[inline(always)]
    fn dot_signed(self, sum: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        // Weights plus 128 are unsigned; what that adds is taken off at the end.
        // SAFETY: as above.
        unsafe { _mm256_dpbusd_avx_epi32(sum, _mm256_xor_si256(weights, _mm256_set1_epi8(-128)), x) }
    }
    #[inline(always)]
    fn finish_signed(self, sum: __m256i, codes_sum: i32) -> __m256i {
        self.offset(sum, -128 * codes_sum)
    }
}
