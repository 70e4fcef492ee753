//! Random file blocks with finite scales, for weights that need no meaning.

use fanlight_messages::TensorType;

use crate::lab::Noise;

/// Byte offsets of the half-precision scales of a block.
fn half_offsets(tensor_type: TensorType) -> &'static [usize] {
    match tensor_type {
        TensorType::Q4_0 | TensorType::Q5_0 | TensorType::Q8_0 | TensorType::Iq4Nl => &[0],
        TensorType::Q4_1 | TensorType::Q5_1 | TensorType::Q4K | TensorType::Q5K => &[0, 2],
        TensorType::Q2K => &[80, 82],
        TensorType::Q3K => &[108],
        TensorType::Q6K => &[208],
        TensorType::F16 | TensorType::Bf16 | TensorType::F32 => &[],
    }
}

/// `blocks` random blocks; scales are halves in ±[2⁻⁹, 2⁻⁶), one in eight subnormal.
pub(super) fn random_blocks(tensor_type: TensorType, blocks: usize, noise: &mut Noise) -> Vec<u8> {
    match tensor_type {
        TensorType::F32 => noise.units(blocks).iter().flat_map(|x| x.to_le_bytes()).collect(),
        TensorType::Bf16 => {
            noise.units(blocks).iter().flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect()
        }
        TensorType::F16 => (0..blocks).flat_map(|_| random_half(noise, 13).to_le_bytes()).collect(),
        _ => {
            let bytes = tensor_type.block_bytes() as usize;
            let mut data = noise.bytes(blocks * bytes);
            for block in data.chunks_exact_mut(bytes) {
                for offset in half_offsets(tensor_type) {
                    block[*offset..offset + 2].copy_from_slice(&random_half(noise, 6).to_le_bytes());
                }
            }
            data
        }
    }
}

/// A random half whose biased exponent is below `exponent + 3`; one in eight is subnormal.
fn random_half(noise: &mut Noise, exponent: u16) -> u16 {
    let bits = noise.bits();
    let biased = if bits & 7 == 0 { 0 } else { exponent + (bits >> 3) as u16 % 3 };
    ((bits >> 16) as u16 & 0x8000) | (biased << 10) | ((bits >> 6) as u16 & 0x3ff)
}
