//! One row of a matrix as numbers: what the embedding table is read for.

use super::{BlockFormat, Float, Format, Matrix, SuperFormat};
use crate::simd::half_to_f32;
use crate::tiles::LANES;

/// Writes row `row`, each weight times `scale`: the weight is rounded first.
///
/// # Panics
/// When the row lies outside the matrix or `to` is shorter than a row.
pub fn weight_row(matrix: &Matrix<'_>, row: usize, scale: f32, to: &mut [f32]) {
    let (group, lane) = (matrix.group(row / LANES), row % LANES);
    let to = &mut to[..matrix.columns];
    match matrix.format {
        Format::Float(float) => floats(float, group, lane, to),
        Format::Block(format) => {
            let blocks = group.chunks_exact(format.bytes());
            for (block, to) in blocks.zip(to.chunks_exact_mut(32)) {
                block_row(format, block, lane, to);
            }
        }
        Format::Super(format) => {
            let blocks = group.chunks_exact(format.bytes());
            for (block, to) in blocks.zip(to.chunks_exact_mut(256)) {
                super_row(format, block, lane, to);
            }
        }
    }
    for x in to {
        *x *= scale;
    }
}

fn half(bytes: &[u8], lane: usize) -> f32 {
    half_to_f32(u16::from_le_bytes([bytes[2 * lane], bytes[2 * lane + 1]]))
}

fn floats(float: Float, group: &[u8], lane: usize, to: &mut [f32]) {
    for (column, x) in to.iter_mut().enumerate() {
        let at = column * LANES + lane;
        *x = match float {
            Float::F32 => f32::from_le_bytes(std::array::from_fn(|i| group[4 * at + i])),
            Float::F16 => half(group, at),
            Float::Bf16 => {
                f32::from_bits(u32::from(u16::from_le_bytes([group[2 * at], group[2 * at + 1]])) << 16)
            }
        };
    }
}

fn block_row(format: BlockFormat, block: &[u8], lane: usize, to: &mut [f32]) {
    let is_nibble = matches!(format, BlockFormat::Nibble | BlockFormat::NibbleMin);
    let (codes, scales) = block.split_at(LANES * if is_nibble { 16 } else { 32 });
    let d = half(scales, lane);
    let code = |e: usize| {
        let chunk = if is_nibble { e / 4 % 4 } else { e / 4 };
        let byte = codes[(chunk * LANES + lane) * 4 + e % 4];
        if !is_nibble { byte } else { if e >= 16 { byte >> 4 } else { byte & 15 } }
    };
    for (e, x) in to.iter_mut().enumerate() {
        let code = code(e);
        *x = match format {
            BlockFormat::Nibble => d * (f32::from(code) - 8.0),
            BlockFormat::Byte => d * f32::from(code as i8),
            BlockFormat::NibbleMin | BlockFormat::ByteMin => {
                d * f32::from(code) + half(&scales[LANES * 2..], lane)
            }
        };
    }
}

fn super_row(format: SuperFormat, block: &[u8], lane: usize, to: &mut [f32]) {
    let (codes, rest) = block.split_at(format.code_bytes());
    let (scales, rest) = rest.split_at(LANES * format.scales());
    let (minima, halves) = rest.split_at(if format.has_minima() { LANES * format.scales() } else { 0 });
    let d = half(halves, lane);
    let span = 256 / format.scales();
    for (e, x) in to.iter_mut().enumerate() {
        let (j, e_of) = (e / 32, e % 32);
        let code = if format.is_nibble() {
            let byte = codes[((j / 2 * 8 + e_of / 4) * LANES + lane) * 4 + e_of % 4];
            byte >> (4 * (j % 2)) & 15
        } else {
            codes[((j * 8 + e_of / 4) * LANES + lane) * 4 + e_of % 4]
        };
        let scale = scales[e / span * LANES + lane];
        *x = if format.has_minima() {
            let dmin = half(&halves[LANES * 2..], lane);
            let minimum = f32::from(minima[e / span * LANES + lane]);
            d * (f32::from(scale) * f32::from(code)) - dmin * minimum
        } else {
            d * (f32::from(scale as i8) * (f32::from(code) - format.zero() as f32))
        };
    }
}
