//! Decoders of the K formats: superblocks of 256 weights whose 8 or 16 sub-block scales are themselves codes.

use super::half_at;

/// Scale and minimum code of sub-block `j` (0..8) of Q4_K and Q5_K.
///
/// ```text
/// byte   0..4   scale[j] bits 0..6 | scale[j + 4] bits 4..6 in the top two bits
/// byte   4..8   min[j]   bits 0..6 | min[j + 4]   bits 4..6 in the top two bits
/// byte   8..12  scale[j + 4] bits 0..4 | min[j + 4] bits 0..4 in the upper nibble
/// ```
fn scale_and_min(packed: &[u8], j: usize) -> (f32, f32) {
    if j < 4 {
        return (f32::from(packed[j] & 63), f32::from(packed[j + 4] & 63));
    }
    let scale = (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4;
    let min = (packed[j + 4] >> 4) | (packed[j] >> 6) << 4;
    (f32::from(scale), f32::from(min))
}

/// scales\[16\] (low nibble scale, high nibble minimum), codes\[64\], d, dmin.
pub fn q2_k(block: &[u8], out: &mut Vec<f32>) {
    let (scales, codes) = (&block[..16], &block[16..80]);
    let (d, dmin) = (half_at(block, 80), half_at(block, 82));
    for element in 0..256 {
        let packed = scales[element / 16];
        let (scale, min) = (d * f32::from(packed & 15), dmin * f32::from(packed >> 4));
        out.push(scale * f32::from(two_bits(codes, element)) - min);
    }
}

/// The two-bit code of an element: 32 bytes serve 128 elements, two bits per group of 32.
fn two_bits(codes: &[u8], element: usize) -> u8 {
    let (half, group, lane) = (element / 128, element % 128 / 32, element % 32);
    codes[32 * half + lane] >> (2 * group) & 3
}

/// high bits\[32\] (a clear bit subtracts 4), codes\[64\], scales\[12\], d.
pub fn q3_k(block: &[u8], out: &mut Vec<f32>) {
    let (high, codes, scales) = (&block[..32], &block[32..96], &block[96..108]);
    let d = half_at(block, 108);
    for element in 0..256 {
        let k = element / 16;
        let low = if k < 8 { scales[k] & 15 } else { scales[k - 8] >> 4 };
        let top = scales[8 + k % 4] >> (2 * (k / 4)) & 3;
        let scale = d * (f32::from(low | top << 4) - 32.0);
        let offset = if high[element % 32] >> (element / 32) & 1 == 0 { 4.0 } else { 0.0 };
        out.push(scale * (f32::from(two_bits(codes, element)) - offset));
    }
}

/// d, dmin, scales\[12\], nibbles\[128\].
pub fn q4_k(block: &[u8], out: &mut Vec<f32>) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    for j in 0..8 {
        let (scale, min) = scale_and_min(&block[4..16], j);
        let (scale, min) = (d * scale, dmin * min);
        out.extend(group_nibbles(&block[16..], j).map(|q| scale * f32::from(q) - min));
    }
}

/// The nibbles of sub-block `j`: 32 bytes serve two sub-blocks, the low nibbles the even one.
fn group_nibbles(codes: &[u8], j: usize) -> impl Iterator<Item = u8> + '_ {
    let shift = 4 * (j % 2);
    codes[32 * (j / 2)..][..32].iter().map(move |b| b >> shift & 15)
}

/// d, dmin, scales\[12\], high bits\[32\] (bit j belongs to sub-block j), nibbles\[128\].
pub fn q5_k(block: &[u8], out: &mut Vec<f32>) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    for j in 0..8 {
        let (scale, min) = scale_and_min(&block[4..16], j);
        let (scale, min) = (d * scale, dmin * min);
        let high = block[16..48].iter().map(|b| (b >> j & 1) << 4);
        let codes = group_nibbles(&block[48..], j).zip(high).map(|(q, h)| q | h);
        out.extend(codes.map(|q| scale * f32::from(q) - min));
    }
}

/// nibbles\[128\], two high bits each\[64\], scales\[16\] (i8), d.
pub fn q6_k(block: &[u8], out: &mut Vec<f32>) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let d = half_at(block, 208);
    for element in 0..256 {
        let (half, group, lane) = (element / 128, element % 128 / 32, element % 32);
        let nibble = low[64 * half + 32 * (group % 2) + lane] >> (4 * (group / 2)) & 15;
        let top = high[32 * half + lane] >> (2 * group) & 3;
        let scale = d * f32::from(scales[element / 16] as i8);
        out.push(scale * (f32::from(nibble | top << 4) - 32.0));
    }
}
