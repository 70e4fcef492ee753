//! Activations as int8 codes with one scale per 32 elements.

use crate::simd::{CODE_WORDS, Codes, Simd, pack_codes};

/// Elements of a block.
pub const BLOCK_LEN: usize = 32;
/// A block whose largest magnitude is smaller has scale 0 and codes 0.
const TINY: f32 = 1e-30;
/// Bits of infinity: magnitudes from here on are not finite.
const INFINITE: i32 = 0x7f80_0000;

/// Thirty-two elements of a row as products read them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    /// -127..=127 each.
    pub codes: Codes,
    /// What a code of 1 stands for: the largest magnitude / 127.
    pub scale: f32,
    /// Sum of all codes.
    pub sum: i32,
    /// Sums of the codes of both halves.
    pub halves: [i32; 2],
}

impl Block {
    /// All zero.
    pub const ZERO: Self = Self { codes: [0; CODE_WORDS], scale: 0.0, sum: 0, halves: [0; 2] };
}

/// Quantises 32 elements: the block, the codes, and whether all elements are finite (else the block is zero).
#[inline(always)]
pub fn codes_of<S: Simd>(s: S, x: &[f32; BLOCK_LEN]) -> (f32, [i8; BLOCK_LEN], bool) {
    let mut largest = s.zero_i();
    for lanes in x.chunks_exact(S::LANES) {
        largest = s.max_i(largest, s.magnitude_bits(s.load(lanes)));
    }
    let mut lanes = [0i32; 16];
    s.store_i(&mut lanes, largest);
    let bits = lanes[..S::LANES].iter().fold(0, |max, bits| if *bits > max { *bits } else { max });
    let amax = f32::from_bits(bits as u32);
    if bits >= INFINITE || amax < TINY {
        return (0.0, [0; BLOCK_LEN], bits < INFINITE);
    }
    let inverse = s.splat(127.0 / amax);
    let mut codes = [0i8; BLOCK_LEN];
    for (x, codes) in x.chunks_exact(S::LANES).zip(codes.chunks_exact_mut(S::LANES)) {
        let mut rounded = [0i32; 16];
        s.store_i(&mut rounded, s.round(s.mul(s.load(x), inverse)));
        for (code, rounded) in codes.iter_mut().zip(&rounded) {
            *code = *rounded as i8;
        }
    }
    (amax * (1.0 / 127.0), codes, true)
}

/// Quantises 32 elements for products; false when one is not finite.
#[inline(always)]
pub fn quantise<S: Simd>(s: S, x: &[f32; BLOCK_LEN], to: &mut Block) -> bool {
    let (scale, codes, is_finite) = codes_of(s, x);
    let sum = |codes: &[i8]| codes.iter().map(|code| i32::from(*code)).sum::<i32>();
    let halves = [sum(&codes[..16]), sum(&codes[16..])];
    *to = Block { codes: pack_codes(&codes), scale, sum: halves[0] + halves[1], halves };
    is_finite
}

/// Keeps the f32 elements of a block where a float matrix reads them.
#[inline(always)]
pub fn keep(values: &mut [f32], x: &[f32; BLOCK_LEN], block: usize, room: usize, row: usize) {
    if !values.is_empty() {
        for (e, x) in x.iter().enumerate() {
            values[(block * BLOCK_LEN + e) * room + row] = *x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Kernel, Level, unpack_codes};

    struct Quantise([f32; 32]);

    impl Kernel for Quantise {
        type Output = (Block, bool);
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> Self::Output {
            let mut block = Block::ZERO;
            let is_finite = quantise(simd, &self.0, &mut block);
            (block, is_finite)
        }
    }

    #[test]
    fn every_level_quantises_as_the_definition_says() {
        let rows: Vec<[f32; 32]> = vec![
            std::array::from_fn(|i| (i as f32 - 15.5) * 0.37),
            std::array::from_fn(|i| if i == 7 { -3e38 } else { i as f32 }),
            [0.0; 32],
            [1e-31; 32],
            [f32::MIN_POSITIVE / 8.0; 32],
        ];
        for x in rows {
            let amax = x.iter().fold(0f64, |max, x| max.max(f64::from(x.abs())));
            for level in Level::all() {
                let (block, is_finite) = level.run(Quantise(x));
                assert!(is_finite);
                let codes: Vec<i32> = (0..8).flat_map(|c| unpack_codes(&block.codes, c)).collect();
                for (x, code) in x.iter().zip(&codes) {
                    let wanted = if amax < 1e-30 { 0.0 } else { f64::from(*x) * 127.0 / amax };
                    assert!((wanted - f64::from(*code)).abs() <= 0.5001, "{level}: {x} {wanted} {code}");
                }
                assert_eq!(block.sum, codes.iter().sum::<i32>());
                assert_eq!(block.halves[0], codes[..16].iter().sum::<i32>());
            }
        }
    }

    #[test]
    fn what_is_not_finite_is_told() {
        for broken in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in [0, 13, 31] {
                for level in Level::all() {
                    let mut x = [1.0; 32];
                    x[at] = broken;
                    let (block, is_finite) = level.run(Quantise(x));
                    assert!(!is_finite && block == Block::ZERO, "{level} {broken} at {at}");
                }
            }
        }
    }
}
