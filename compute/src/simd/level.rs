//! Which instruction set runs the kernels.

use std::fmt;

use super::{Kernel, Portable, Simd};

#[cfg(target_arch = "wasm32")]
use super::wasm::Simd128;
#[cfg(target_arch = "x86_64")]
use super::{avx_vnni::AvxVnni, avx2::Avx2, avx512::Avx512};

/// An instruction set that this processor has.
#[derive(Debug, Clone, Copy)]
pub enum Level {
    /// AVX-512 with VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// AVX2 with 8-bit dot products.
    #[cfg(target_arch = "x86_64")]
    AvxVnni(AvxVnni),
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// WebAssembly's 128-bit SIMD.
    #[cfg(target_arch = "wasm32")]
    Simd128(Simd128),
    /// Plain Rust.
    Portable(Portable),
}

impl Level {
    /// All that this processor has, the fastest first.
    pub fn all() -> Vec<Self> {
        let mut all = vectors();
        all.push(Self::Portable(Portable));
        all
    }

    /// The fastest.
    pub fn best() -> Self {
        Self::all()[0]
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512-vnni",
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni(_) => "avx-vnni",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "wasm32")]
            Self::Simd128(_) => "simd128",
            Self::Portable(_) => "portable",
        }
    }

    /// Runs a kernel with it.
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "wasm32")]
            Self::Simd128(simd) => simd.vectorize(kernel),
            Self::Portable(simd) => simd.vectorize(kernel),
        }
    }
}

/// The instruction sets of this processor, the fastest first.
#[cfg(target_arch = "x86_64")]
fn vectors() -> Vec<Level> {
    let all = [
        Avx512::detect().map(Level::Avx512),
        AvxVnni::detect().map(Level::AvxVnni),
        Avx2::detect().map(Level::Avx2),
    ];
    all.into_iter().flatten().collect()
}

/// What the module was compiled for.
#[cfg(target_arch = "wasm32")]
fn vectors() -> Vec<Level> {
    vec![Level::Simd128(Simd128)]
}

/// None that has kernels.
#[cfg(not(any(target_arch = "x86_64", target_arch = "wasm32")))]
fn vectors() -> Vec<Level> {
    Vec::new()
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
