//! Bytes of a row to f32, with the roundings that the reference implementation has (each product and sum
//! rounded to f32 once).

use super::decode_k::{q2_k, q3_k, q4_k, q5_k, q6_k};
use super::{BlockError, IQ4_NL_LEVELS, half_at};
use fanlight_messages::TensorType;

/// Decodes whole blocks.
///
/// # Errors
/// [`BlockError::PartialBytes`] when the bytes do not fill whole blocks.
pub fn decode_row(tensor_type: TensorType, bytes: &[u8]) -> Result<Vec<f32>, BlockError> {
    let block_bytes = tensor_type.block_bytes() as usize;
    if !bytes.len().is_multiple_of(block_bytes) {
        return Err(BlockError::PartialBytes { len: bytes.len(), tensor_type });
    }
    let mut out = Vec::with_capacity(bytes.len() / block_bytes * tensor_type.block_len() as usize);
    let decode: fn(&[u8], &mut Vec<f32>) = match tensor_type {
        TensorType::F32 => |b, out| out.push(f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
        TensorType::F16 => |b, out| out.push(half_at(b, 0)),
        TensorType::Bf16 => {
            |b, out| out.push(f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16))
        }
        TensorType::Q4_0 => q4_0,
        TensorType::Q4_1 => q4_1,
        TensorType::Q5_0 => q5_0,
        TensorType::Q5_1 => q5_1,
        TensorType::Q8_0 => q8_0,
        TensorType::Q2K => q2_k,
        TensorType::Q3K => q3_k,
        TensorType::Q4K => q4_k,
        TensorType::Q5K => q5_k,
        TensorType::Q6K => q6_k,
        TensorType::Iq4Nl => iq4_nl,
    };
    bytes.chunks_exact(block_bytes).for_each(|block| decode(block, &mut out));
    Ok(out)
}

/// The 32 nibbles of 16 bytes: low ones are elements 0..16, high ones 16..32.
fn nibbles(bytes: &[u8]) -> impl Iterator<Item = u8> + '_ {
    bytes[..16].iter().map(|b| b & 15).chain(bytes[..16].iter().map(|b| b >> 4))
}

/// The 32 five-bit codes of a high-bit word and 16 bytes of nibbles.
fn five_bits<'a>(high: &[u8], low: &'a [u8]) -> impl Iterator<Item = u8> + 'a {
    let high = u32::from_le_bytes([high[0], high[1], high[2], high[3]]);
    nibbles(low).enumerate().map(move |(i, q)| q | (((high >> i) & 1) as u8) << 4)
}

fn q4_0(block: &[u8], out: &mut Vec<f32>) {
    let d = half_at(block, 0);
    out.extend(nibbles(&block[2..]).map(|q| d * (f32::from(q) - 8.0)));
}

fn q4_1(block: &[u8], out: &mut Vec<f32>) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    out.extend(nibbles(&block[4..]).map(|q| d * f32::from(q) + m));
}

fn q5_0(block: &[u8], out: &mut Vec<f32>) {
    let d = half_at(block, 0);
    out.extend(five_bits(&block[2..6], &block[6..]).map(|q| d * (f32::from(q) - 16.0)));
}

fn q5_1(block: &[u8], out: &mut Vec<f32>) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    out.extend(five_bits(&block[4..8], &block[8..]).map(|q| d * f32::from(q) + m));
}

fn q8_0(block: &[u8], out: &mut Vec<f32>) {
    let d = half_at(block, 0);
    out.extend(block[2..].iter().map(|&q| d * f32::from(q as i8)));
}

fn iq4_nl(block: &[u8], out: &mut Vec<f32>) {
    let d = half_at(block, 0);
    out.extend(nibbles(&block[2..]).map(|q| d * f32::from(IQ4_NL_LEVELS[usize::from(q)])));
}
