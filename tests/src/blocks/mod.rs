//! The block formats of GGUF, both ways: rows of floats to bytes and back.
//!
//! The layouts are those of the public specification; the encoders round to nearest and search for nothing.

mod decode;
mod decode_k;
mod encode;
mod encode_k;

use fanlight_messages::TensorType;

pub use decode::decode_row;
pub use encode::encode_row;

/// The 16 levels of IQ4_NL, in units of the block scale.
pub const IQ4_NL_LEVELS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Why a row could not be encoded or decoded.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BlockError {
    /// The floats do not fill whole blocks.
    #[error("{len} floats are not a whole number of {tensor_type} blocks of {}", tensor_type.block_len())]
    PartialRow {
        /// Floats given.
        len: usize,
        /// Wanted type.
        tensor_type: TensorType,
    },
    /// The bytes do not fill whole blocks.
    #[error("{len} bytes are not a whole number of {tensor_type} blocks of {}", tensor_type.block_bytes())]
    PartialBytes {
        /// Bytes given.
        len: usize,
        /// Their type.
        tensor_type: TensorType,
    },
}

/// A half as f32.
fn half_at(block: &[u8], offset: usize) -> f32 {
    half::f16::from_le_bytes([block[offset], block[offset + 1]]).to_f32()
}

/// Rounds to a half, appends it, and returns what a reader will see.
fn push_half(value: f32, out: &mut Vec<u8>) -> f32 {
    let half = half::f16::from_f32(value);
    out.extend(half.to_le_bytes());
    half.to_f32()
}

/// `value / scale`, or 0 for an empty scale.
fn ratio(value: f32, scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { value / scale }
}

/// The nearest whole number, kept within a range of codes.
fn code(value: f32, low: i32, high: i32) -> i32 {
    (value.round() as i32).clamp(low, high)
}
