//! What the kernels are written in: registers of a few f32 lanes and of int8 codes, implemented for each
//! instruction set. Every implementation gives the same bits: IEEE additions and multiplications are never
//! fused, and integer sums are exact.
//!
//! A value of a type that implements [`Simd`] is proof that this processor has the instructions: it is only
//! made where that was checked, so the methods can be safe.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx_vnni;
mod level;
mod portable;
#[cfg(target_arch = "wasm32")]
mod wasm;

pub use level::Level;
pub use portable::Portable;
pub(crate) use portable::half_to_f32;

/// Words of a block of 32 activation codes as this target's products read them: four int8 to a word, or on
/// wasm, whose products take 16-bit factors, two int16.
pub const CODE_WORDS: usize = if cfg!(target_arch = "wasm32") { 16 } else { 8 };

/// The codes of a block of 32 activations, in the form of [`CODE_WORDS`].
pub type Codes = [u32; CODE_WORDS];

/// Packs int8 codes.
pub fn pack_codes(codes: &[i8; 32]) -> Codes {
    let mut words = [0; CODE_WORDS];
    if CODE_WORDS == 8 {
        for (word, four) in words.iter_mut().zip(codes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(four.map(|code| code as u8));
        }
    } else {
        for (word, [low, high]) in words.iter_mut().zip(codes.as_chunks::<2>().0) {
            *word = u32::from(i16::from(*low) as u16) | u32::from(i16::from(*high) as u16) << 16;
        }
    }
    words
}

/// Four codes of a packed block.
pub fn unpack_codes(codes: &Codes, chunk: usize) -> [i32; 4] {
    if CODE_WORDS == 8 {
        codes[chunk].to_le_bytes().map(|byte| i32::from(byte as i8))
    } else {
        let half = |word: u32, upper: bool| i32::from((if upper { word >> 16 } else { word }) as u16 as i16);
        let (first, second) = (codes[2 * chunk], codes[2 * chunk + 1]);
        [half(first, false), half(first, true), half(second, false), half(second, true)]
    }
}

/// Work that is compiled once for each instruction set. Every function on the way from here to the
/// methods of [`Simd`] must be `#[inline(always)]`: only what is inlined into
/// [`vectorize`](Simd::vectorize) may use the instructions.
pub trait Kernel {
    /// What it gives.
    type Output;
    /// Runs it.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Registers of [`LANES`](Self::LANES) f32, and registers of int8 codes: four columns of `LANES` rows.
///
/// Slices that are read or written must have at least `LANES` elements (for codes, four bytes a lane).
pub trait Simd: Copy + Send + Sync + 'static {
    /// Lanes: 4, 8 or 16.
    const LANES: usize;
    /// Input rows that a product handles at once: what fits the registers.
    const TILE: usize;
    /// f32 lanes.
    type F: Copy;
    /// i32 lanes.
    type I: Copy;
    /// Codes as loaded.
    type Raw: Copy;
    /// Four codes of an activation, for every lane.
    type X: Copy;
    /// Sums of products with codes 0..=15, over eight chunks of four columns at most.
    type Small: Copy;
    /// Sums of products with other codes.
    type Sum: Copy;

    /// Runs a kernel with this instruction set enabled.
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output;

    /// Every lane `value`.
    fn splat(self, value: f32) -> Self::F;
    /// Lane by lane.
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// Lane by lane.
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// Lane by lane.
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// Lane by lane.
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `b` where it is larger, else `a`: a NaN in `b` leaves `a`.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// `b` where it is smaller, else `a`: a NaN in `b` leaves `a`.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// Reads lanes.
    fn load(self, from: &[f32]) -> Self::F;
    /// Writes lanes.
    fn store(self, to: &mut [f32], value: Self::F);
    /// Reads halves; exact, subnormals, infinities and NaNs too.
    fn load_half(self, from: &[u8]) -> Self::F;
    /// Reads bfloat16.
    fn load_brain(self, from: &[u8]) -> Self::F;
    /// Reads f32 from bytes.
    fn load_bytes(self, from: &[u8]) -> Self::F;
    /// Reads int8.
    fn load_i8(self, from: &[u8]) -> Self::F;
    /// Reads unsigned bytes.
    fn load_u8(self, from: &[u8]) -> Self::F;

    /// To the nearest integer, halves to even, of magnitudes below 2²².
    fn round(self, a: Self::F) -> Self::I;
    /// Exact below 2²⁴.
    fn to_f(self, a: Self::I) -> Self::F;
    /// 2 to the power of each lane, which is -126..=127.
    fn power(self, a: Self::I) -> Self::F;
    /// Adds `value` to each lane.
    fn offset(self, a: Self::I, value: i32) -> Self::I;
    /// Writes lanes.
    fn store_i(self, to: &mut [i32], value: Self::I);
    /// The bits without the sign, as an integer: finite magnitudes order as these do, and what is not
    /// finite is at least 0x7f800000.
    fn magnitude_bits(self, a: Self::F) -> Self::I;
    /// The larger, lane by lane.
    fn max_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// Every lane 0.
    fn zero_i(self) -> Self::I;

    /// Reads codes.
    fn load_codes(self, from: &[u8]) -> Self::Raw;
    /// The low nibbles.
    fn low(self, raw: Self::Raw) -> Self::Raw;
    /// The high nibbles.
    fn high(self, raw: Self::Raw) -> Self::Raw;
    /// Codes `4 chunk ..` of an activation block.
    fn codes(self, codes: &Codes, chunk: usize) -> Self::X;
    /// No products yet.
    fn zero_small(self) -> Self::Small;
    /// Adds products with codes 0..=15.
    fn dot_small(self, sum: Self::Small, weights: Self::Raw, x: Self::X) -> Self::Small;
    /// The sums.
    fn finish_small(self, sum: Self::Small) -> Self::I;
    /// No products yet.
    fn zero_sum(self) -> Self::Sum;
    /// Adds products with codes 0..=127.
    fn dot_unsigned(self, sum: Self::Sum, weights: Self::Raw, x: Self::X) -> Self::Sum;
    /// The sums of products with codes 0..=127.
    fn finish_unsigned(self, sum: Self::Sum) -> Self::I;
    /// Adds products with codes -128..=127.
    fn dot_signed(self, sum: Self::Sum, weights: Self::Raw, x: Self::X) -> Self::Sum;
    /// The sums of products with codes -128..=127; `codes_sum` is the sum of the activation codes that were
    /// multiplied.
    fn finish_signed(self, sum: Self::Sum, codes_sum: i32) -> Self::I;
}

/// The number whose addition leaves a rounded integer in the low bits of an f32: 1.5 · 2²³.
const ROUNDER: f32 = 12_582_912.0;
/// Its bits.
const ROUNDER_BITS: i32 = 0x4b40_0000;
