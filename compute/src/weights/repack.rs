//! File rows into groups.

use super::part::{Part, part};
use fanlight_messages::TensorType;

use super::{BlockFormat, Format, SuperFormat};
use crate::tiles::LANES;

/// Writes whole file rows, from row `first` of the matrix on, into its groups. `to` is the whole matrix,
/// `bytes` are rows of `columns` weights in file format.
///
/// # Panics
/// When `bytes` is no whole number of rows, or rows lie outside the matrix.
pub fn repack_rows(file: TensorType, columns: usize, first: usize, bytes: &[u8], to: &mut [u8]) {
    let block_bytes = file.block_bytes() as usize;
    let row_bytes = columns / file.block_len() as usize * block_bytes;
    assert!(bytes.len().is_multiple_of(row_bytes), "whole rows");
    let format = Format::of(file);
    let group_bytes = format.group_bytes(columns);
    for (row, data) in (first..).zip(bytes.chunks_exact(row_bytes)) {
        let group = &mut to[row / LANES * group_bytes..][..group_bytes];
        let lane = row % LANES;
        match format {
            Format::Float(_) => place_floats(block_bytes, data, lane, group),
            Format::Block(format) => {
                let blocks = data.chunks_exact(block_bytes);
                for (data, to) in blocks.zip(group.chunks_exact_mut(format.bytes())) {
                    place_block(file, format, data, lane, to);
                }
            }
            Format::Super(format) => {
                let blocks = data.chunks_exact(block_bytes);
                for (data, to) in blocks.zip(group.chunks_exact_mut(format.bytes())) {
                    place_super(file, format, data, lane, to);
                }
            }
        }
    }
}

fn place_floats(width: usize, row: &[u8], lane: usize, group: &mut [u8]) {
    for (element, column) in row.chunks_exact(width).zip(group.chunks_exact_mut(LANES * width)) {
        column[lane * width..][..width].copy_from_slice(element);
    }
}

/// Four code bytes of a lane into their chunk.
fn place_chunk(to: &mut [u8], chunk: usize, lane: usize, four: [u8; 4]) {
    to[(chunk * LANES + lane) * 4..][..4].copy_from_slice(&four);
}

fn place_half(to: &mut [u8], lane: usize, half: u16) {
    to[lane * 2..][..2].copy_from_slice(&half.to_le_bytes());
}

fn place_block(file: TensorType, format: BlockFormat, data: &[u8], lane: usize, to: &mut [u8]) {
    let code_bytes = match format {
        BlockFormat::Nibble | BlockFormat::NibbleMin => LANES * 16,
        BlockFormat::Byte | BlockFormat::ByteMin => LANES * 32,
    };
    let (codes, scales) = to.split_at_mut(code_bytes);
    let has_minima = matches!(format, BlockFormat::NibbleMin | BlockFormat::ByteMin);
    // The words of these types are those of their groups: no code has to be taken apart.
    let words = match file {
        TensorType::Q4_0 | TensorType::Q8_0 => Some(2),
        TensorType::Q4_1 => Some(4),
        _ => None,
    };
    let (d, m) = if let Some(head) = words {
        for (chunk, four) in data[head..].as_chunks::<4>().0.iter().enumerate() {
            place_chunk(codes, chunk, lane, *four);
        }
        (u16::from_le_bytes([data[0], data[1]]), u16::from_le_bytes([data[2], data[3]]))
    } else {
        let part = part(file, data, 0);
        for (chunk, four) in part.codes.as_chunks::<4>().0.iter().enumerate() {
            place_chunk(codes, chunk, lane, *four);
        }
        (part.d, part.m)
    };
    place_half(scales, lane, d);
    if has_minima {
        place_half(&mut scales[LANES * 2..], lane, m);
    }
}

fn place_super(file: TensorType, format: SuperFormat, data: &[u8], lane: usize, to: &mut [u8]) {
    let (codes, rest) = to.split_at_mut(format.code_bytes());
    let (scales, rest) = rest.split_at_mut(LANES * format.scales());
    let (minima, halves) = rest.split_at_mut(if format.has_minima() { LANES * format.scales() } else { 0 });
    let per_part = format.scales() / 8;
    let parts: [Part; 8] = std::array::from_fn(|j| part(file, data, j));
    for (j, part) in parts.iter().enumerate() {
        for (chunk, four) in part.codes.as_chunks::<4>().0.iter().enumerate() {
            if format.is_nibble() {
                let at = ((j / 2 * 8 + chunk) * LANES + lane) * 4;
                let (kept, shift) = if j % 2 == 0 { (0xf0, 0) } else { (0x0f, 4) };
                for (to, code) in codes[at..][..4].iter_mut().zip(four) {
                    *to = (*to & kept) | code << shift;
                }
            } else {
                place_chunk(codes, j * 8 + chunk, lane, *four);
            }
        }
        for k in 0..per_part {
            scales[(j * per_part + k) * LANES + lane] = part.scales[k];
            if format.has_minima() {
                minima[(j * per_part + k) * LANES + lane] = part.minima[k];
            }
        }
    }
    place_half(halves, lane, parts[0].d);
    if format.has_minima() {
        place_half(&mut halves[LANES * 2..], lane, parts[0].m);
    }
}
