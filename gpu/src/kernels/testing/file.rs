//! Rows of weights as a file holds them: random blocks with hard scales.

use fanlight_messages::TensorType;

use crate::lab::Noise;

/// Byte offsets of the half-precision scales of a block.
pub(in crate::kernels) fn half_offsets(tensor_type: TensorType) -> &'static [usize] {
    match tensor_type {
        TensorType::Q4_0 | TensorType::Q5_0 | TensorType::Q8_0 | TensorType::Iq4Nl => &[0],
        TensorType::Q4_1 | TensorType::Q5_1 | TensorType::Q4K | TensorType::Q5K => &[0, 2],
        TensorType::Q2K => &[80, 82],
        TensorType::Q3K => &[108],
        TensorType::Q6K => &[208],
        TensorType::F16 | TensorType::Bf16 | TensorType::F32 => &[],
    }
}

/// A finite half: one in eight subnormal, one in eight a zero of either sign, the others below 2⁻³ and of
/// either sign.
fn hard_half(noise: &mut Noise) -> u16 {
    let bits = noise.bits();
    let (sign, mantissa) = ((bits >> 16) as u16 & 0x8000, (bits >> 6) as u16 & 0x3ff);
    match bits & 7 {
        0 => sign | mantissa.max(1),
        1 => sign,
        _ => sign | (6 + (bits >> 3) as u16 % 6) << 10 | mantissa,
    }
}

/// `elements` weights in whole blocks. Codes and integer scales are random bytes, so every code and both
/// signs come up.
pub(in crate::kernels) fn random_weights(
    tensor_type: TensorType,
    elements: usize,
    noise: &mut Noise,
) -> Vec<u8> {
    match tensor_type {
        TensorType::F32 => noise.units(elements).iter().flat_map(|x| x.to_le_bytes()).collect(),
        TensorType::Bf16 => {
            noise.units(elements).iter().flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect()
        }
        TensorType::F16 => (0..elements).flat_map(|_| hard_half(noise).to_le_bytes()).collect(),
        _ => {
            let blocks = elements / tensor_type.block_len() as usize;
            let size = tensor_type.block_bytes() as usize;
            let mut bytes = noise.bytes(blocks * size);
            for block in bytes.chunks_exact_mut(size) {
                for offset in half_offsets(tensor_type) {
                    block[*offset..offset + 2].copy_from_slice(&hard_half(noise).to_le_bytes());
                }
            }
            bytes
        }
    }
}

/// Bytes as the words of a buffer, and a spare one: unaligned words are read in pairs.
pub(in crate::kernels) fn landing_words(bytes: &[u8]) -> Vec<u32> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(4) + 4, 0);
    bytemuck::pod_collect_to_vec(&padded)
}
