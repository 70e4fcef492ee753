//! f32 to bytes of a row, rounding to nearest.

use super::encode_k::{q2_k, q3_k, q4_k, q5_k, q6_k};
use super::{BlockError, IQ4_NL_LEVELS, code, push_half, ratio};
use fanlight_messages::TensorType;

/// Encodes whole blocks.
///
/// # Errors
/// [`BlockError::PartialRow`] when the floats do not fill whole blocks.
pub fn encode_row(tensor_type: TensorType, row: &[f32]) -> Result<Vec<u8>, BlockError> {
    let block_len = tensor_type.block_len() as usize;
    if !row.len().is_multiple_of(block_len) {
        return Err(BlockError::PartialRow { len: row.len(), tensor_type });
    }
    let mut out = Vec::with_capacity(row.len() / block_len * tensor_type.block_bytes() as usize);
    let encode: fn(&[f32], &mut Vec<u8>) = match tensor_type {
        TensorType::F32 => |x, out| out.extend(x[0].to_le_bytes()),
        TensorType::F16 => |x, out| out.extend(half::f16::from_f32(x[0]).to_le_bytes()),
        TensorType::Bf16 => |x, out| out.extend(half::bf16::from_f32(x[0]).to_le_bytes()),
        TensorType::Q4_0 => |x, out| symmetric(x, 8, out),
        TensorType::Q5_0 => |x, out| symmetric(x, 16, out),
        TensorType::Q4_1 => |x, out| affine(x, 15, out),
        TensorType::Q5_1 => |x, out| affine(x, 31, out),
        TensorType::Q8_0 => q8_0,
        TensorType::Q2K => q2_k,
        TensorType::Q3K => q3_k,
        TensorType::Q4K => q4_k,
        TensorType::Q5K => q5_k,
        TensorType::Q6K => q6_k,
        TensorType::Iq4Nl => iq4_nl,
    };
    row.chunks_exact(block_len).for_each(|block| encode(block, &mut out));
    Ok(out)
}

/// The element of largest magnitude, with its sign.
pub(super) fn signed_peak(x: &[f32]) -> f32 {
    x.iter().copied().fold(0.0, |peak: f32, v| if v.abs() > peak.abs() { v } else { peak })
}

/// Smallest and largest element.
pub(super) fn range(x: &[f32]) -> (f32, f32) {
    x.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &v| (low.min(v), high.max(v)))
}

/// Appends 32 codes of 4 bits, or of 5 with their high bits ahead.
fn push_codes(codes: &[i32], has_high_bits: bool, out: &mut Vec<u8>) {
    if has_high_bits {
        let high = codes.iter().enumerate().fold(0_u32, |word, (i, q)| word | ((q >> 4 & 1) as u32) << i);
        out.extend(high.to_le_bytes());
    }
    out.extend((0..16).map(|i| (codes[i] & 15) as u8 | ((codes[i + 16] & 15) as u8) << 4));
}

/// Q4_0 (offset 8) and Q5_0 (offset 16): the peak gets the code 0, which lies one step farther out.
fn symmetric(x: &[f32], offset: i32, out: &mut Vec<u8>) {
    let d = push_half(signed_peak(x) / -(offset as f32), out);
    let codes: Vec<i32> = x.iter().map(|&v| code(ratio(v, d) + offset as f32, 0, 2 * offset - 1)).collect();
    push_codes(&codes, offset == 16, out);
}

/// Q4_1 (15 steps) and Q5_1 (31 steps) from the smallest to the largest element.
fn affine(x: &[f32], steps: i32, out: &mut Vec<u8>) {
    let (low, high) = range(x);
    let d = push_half((high - low) / steps as f32, out);
    let m = push_half(low, out);
    let codes: Vec<i32> = x.iter().map(|&v| code(ratio(v - m, d), 0, steps)).collect();
    push_codes(&codes, steps == 31, out);
}

fn q8_0(x: &[f32], out: &mut Vec<u8>) {
    let d = push_half(signed_peak(x).abs() / 127.0, out);
    out.extend(x.iter().map(|&v| code(ratio(v, d), -127, 127) as i8 as u8));
}

fn iq4_nl(x: &[f32], out: &mut Vec<u8>) {
    let d = push_half(signed_peak(x) / f32::from(IQ4_NL_LEVELS[0]), out);
    let nearest = |&v: &f32| {
        let target = ratio(v, d);
        let distance = |i: &usize| (f32::from(IQ4_NL_LEVELS[*i]) - target).abs();
        (0..16).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(0) as i32
    };
    push_codes(&x.iter().map(nearest).collect::<Vec<_>>(), false, out);
}
