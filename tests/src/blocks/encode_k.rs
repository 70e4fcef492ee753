//! Encoders of the K formats; the layouts are drawn beside the decoders.

use super::encode::{range, signed_peak};
use super::{code, push_half, ratio};

/// Scale and minimum of each sub-block, and their codes under one superblock pair.
struct Affine {
    scale_codes: Vec<i32>,
    min_codes: Vec<i32>,
    d: f32,
    dmin: f32,
}

/// Fits `x = scale · code - min` with codes 0..=`steps` to sub-blocks of `sub_len`; the codes of scales and
/// minima go up to `code_max`. `halves` gets d and dmin as they stand in the file.
fn fit_affine(x: &[f32], sub_len: usize, steps: i32, code_max: i32, halves: &mut Vec<u8>) -> Affine {
    let fits: Vec<(f32, f32)> = x
        .chunks_exact(sub_len)
        .map(|sub| {
            let (low, high) = range(sub);
            let low = low.min(0.0);
            ((high.max(low) - low) / steps as f32, -low)
        })
        .collect();
    let scale_max = fits.iter().fold(0.0, |m: f32, f| m.max(f.0));
    let min_max = fits.iter().fold(0.0, |m: f32, f| m.max(f.1));
    let d = push_half(scale_max / code_max as f32, halves);
    let dmin = push_half(min_max / code_max as f32, halves);
    Affine {
        scale_codes: fits.iter().map(|f| code(ratio(f.0, d), 0, code_max)).collect(),
        min_codes: fits.iter().map(|f| code(ratio(f.1, dmin), 0, code_max)).collect(),
        d,
        dmin,
    }
}

impl Affine {
    /// The weight codes of all sub-blocks.
    fn codes(&self, x: &[f32], sub_len: usize, steps: i32) -> Vec<i32> {
        let quantise = |(i, &v): (usize, &f32)| {
            let scale = self.d * self.scale_codes[i / sub_len] as f32;
            let min = self.dmin * self.min_codes[i / sub_len] as f32;
            code(ratio(v + min, scale), 0, steps)
        };
        x.iter().enumerate().map(quantise).collect()
    }

    /// The 12 bytes of eight 6-bit scales and minima.
    fn packed_six_bits(&self) -> [u8; 12] {
        let mut packed = [0_u8; 12];
        for j in 0..4 {
            let (scale, min) = (self.scale_codes[j] as u8, self.min_codes[j] as u8);
            let (scale4, min4) = (self.scale_codes[j + 4] as u8, self.min_codes[j + 4] as u8);
            packed[j] = scale | scale4 >> 4 << 6;
            packed[j + 4] = min | min4 >> 4 << 6;
            packed[j + 8] = scale4 & 15 | (min4 & 15) << 4;
        }
        packed
    }
}

/// 64 bytes of two-bit codes.
fn push_two_bits(codes: &[i32], out: &mut Vec<u8>) {
    for half in codes.chunks_exact(128) {
        out.extend((0..32).map(|l| (0..4).fold(0, |b, g| b | ((half[32 * g + l] & 3) as u8) << (2 * g))));
    }
}

/// 128 bytes of nibbles, two sub-blocks of 32 per 32 bytes.
fn push_group_nibbles(codes: &[i32], out: &mut Vec<u8>) {
    for pair in codes.chunks_exact(64) {
        out.extend((0..32).map(|l| (pair[l] & 15) as u8 | ((pair[l + 32] & 15) as u8) << 4));
    }
}

pub fn q2_k(x: &[f32], out: &mut Vec<u8>) {
    let mut halves = Vec::new();
    let fit = fit_affine(x, 16, 3, 15, &mut halves);
    out.extend(fit.scale_codes.iter().zip(&fit.min_codes).map(|(&s, &m)| s as u8 | (m as u8) << 4));
    push_two_bits(&fit.codes(x, 16, 3), out);
    out.extend(halves);
}

pub fn q4_k(x: &[f32], out: &mut Vec<u8>) {
    let fit = fit_affine(x, 32, 15, 63, out);
    out.extend(fit.packed_six_bits());
    push_group_nibbles(&fit.codes(x, 32, 15), out);
}

pub fn q5_k(x: &[f32], out: &mut Vec<u8>) {
    let fit = fit_affine(x, 32, 31, 63, out);
    let codes = fit.codes(x, 32, 31);
    out.extend(fit.packed_six_bits());
    out.extend((0..32).map(|l| (0..8).fold(0, |b, j| b | ((codes[32 * j + l] >> 4 & 1) as u8) << j)));
    push_group_nibbles(&codes, out);
}

/// Signed scales of sub-blocks of 16, as codes of magnitude up to `code_max` under one d.
fn fit_symmetric(x: &[f32], levels: i32, code_max: i32, halves: &mut Vec<u8>) -> (Vec<i32>, Vec<f32>) {
    let scales: Vec<f32> = x.chunks_exact(16).map(|sub| signed_peak(sub) / -(levels as f32)).collect();
    let d = push_half(signed_peak(&scales).abs() / code_max as f32, halves);
    let codes: Vec<i32> = scales.iter().map(|&s| code(ratio(s, d), -code_max, code_max)).collect();
    let seen = codes.iter().map(|&c| d * c as f32).collect();
    (codes, seen)
}

pub fn q3_k(x: &[f32], out: &mut Vec<u8>) {
    let mut halves = Vec::new();
    let (scale_codes, scales) = fit_symmetric(x, 4, 31, &mut halves);
    let codes: Vec<i32> =
        x.iter().enumerate().map(|(i, &v)| code(ratio(v, scales[i / 16]), -4, 3) + 4).collect();
    out.extend((0..32).map(|l| (0..8).fold(0, |b, j| b | ((codes[32 * j + l] >> 2 & 1) as u8) << j)));
    push_two_bits(&codes, out);
    let stored: Vec<u8> = scale_codes.iter().map(|&c| (c + 32) as u8).collect();
    out.extend((0..8).map(|k| stored[k] & 15 | (stored[k + 8] & 15) << 4));
    out.extend((0..4).map(|k| (0..4).fold(0, |b, part| b | (stored[k + 4 * part] >> 4) << (2 * part))));
    out.extend(halves);
}

pub fn q6_k(x: &[f32], out: &mut Vec<u8>) {
    let mut halves = Vec::new();
    let (scale_codes, scales) = fit_symmetric(x, 32, 127, &mut halves);
    let codes: Vec<u8> =
        x.iter().enumerate().map(|(i, &v)| (code(ratio(v, scales[i / 16]), -32, 31) + 32) as u8).collect();
    for half in codes.chunks_exact(128) {
        out.extend((0..64).map(|l| half[l] & 15 | (half[l + 64] & 15) << 4));
    }
    for half in codes.chunks_exact(128) {
        out.extend((0..32).map(|l| (0..4).fold(0, |b, g| b | (half[32 * g + l] >> 4) << (2 * g))));
    }
    out.extend(scale_codes.iter().map(|&c| c as i8 as u8));
    out.extend(halves);
}
