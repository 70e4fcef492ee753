//! Writes random-weight files of any size quickly: block bytes are drawn directly and only their scales are
//! chosen, so that weights have the wanted spread. Memory stays at one buffer of a few MB.

use super::metadata::metadata;
use super::random::Random;
use super::shape::Shape;
use super::tensors::{Slot, Spread, WeightTypes, tensors};
use super::tiny::{SynthError, encode_slot};
use super::vocabulary::Vocabulary;
use crate::blocks::{decode_row, encode_row};
use crate::gguf::writer::header_bytes;
use crate::gguf::{DEFAULT_ALIGNMENT, TensorPlan, WriteError};
use fanlight_messages::TensorType;
use std::io::Write;

/// Bytes drawn at a time: large enough for full disk speed, small beside any model.
const BUFFER_BYTES: usize = 4 << 20;
/// Different scales per tensor; a power of two.
const SCALE_CHOICES: usize = 64;
/// Random floats that float tensors are assembled from; a power of two.
const FLOAT_CHOICES: usize = 4096;

/// Where the f16 scale of a block is, where its minimum is, and the minimum that centres random codes, in
/// scales.
fn scale_layout(tensor_type: TensorType) -> (usize, Option<(usize, f64)>) {
    match tensor_type {
        TensorType::Q4_1 => (0, Some((2, -7.5))),
        TensorType::Q5_1 => (0, Some((2, -15.5))),
        TensorType::Q2K => (80, Some((82, 1.5))),
        TensorType::Q3K => (108, None),
        TensorType::Q4K => (0, Some((2, 7.5))),
        TensorType::Q5K => (0, Some((2, 15.5))),
        TensorType::Q6K => (208, None),
        _ => (0, None),
    }
}

/// The scale fields of a block, as they stand in the file.
#[derive(Debug, Clone, Copy)]
struct Scale {
    scale: [u8; 2],
    min: [u8; 2],
}

impl Scale {
    fn new(tensor_type: TensorType, scale: f64) -> Self {
        let ratio = scale_layout(tensor_type).1.map_or(0.0, |(_, ratio)| ratio);
        let bytes = |x| half::f16::from_f64(x).to_le_bytes();
        Self { scale: bytes(scale), min: bytes(scale * ratio) }
    }

    fn set(self, tensor_type: TensorType, block: &mut [u8]) {
        let (at, min) = scale_layout(tensor_type);
        block[at..at + 2].copy_from_slice(&self.scale);
        if let Some((at, _)) = min {
            block[at..at + 2].copy_from_slice(&self.min);
        }
    }
}

/// Deviation of the weights of random blocks whose scale is 1.
fn unit_deviation(tensor_type: TensorType) -> Result<f64, SynthError> {
    const SAMPLE_BLOCKS: usize = 256;
    let mut bytes = vec![0; SAMPLE_BLOCKS * tensor_type.block_bytes() as usize];
    Random::new(0, 0).fill(&mut bytes);
    let blocks = bytes.chunks_exact_mut(tensor_type.block_bytes() as usize);
    let unit = Scale::new(tensor_type, 1.0);
    blocks.for_each(|block| unit.set(tensor_type, block));
    let weights = decode_row(tensor_type, &bytes)?;
    let squares: f64 = weights.iter().map(|w| f64::from(*w).powi(2)).sum();
    Ok((squares / weights.len() as f64).sqrt())
}

/// Draws blocks of one tensor.
enum Painter {
    /// Copies random entries of a table of encoded floats.
    Floats(Vec<u8>),
    /// Random codes, then one of these scales.
    Blocks(Vec<Scale>),
}

impl Painter {
    fn new(tensor_type: TensorType, deviation: f64, random: &mut Random) -> Result<Self, SynthError> {
        if tensor_type.is_float() {
            let values: Vec<f32> = (0..FLOAT_CHOICES).map(|_| (deviation * random.normal()) as f32).collect();
            return Ok(Self::Floats(encode_row(tensor_type, &values)?));
        }
        let scale = deviation / unit_deviation(tensor_type)?;
        let choices = (0..SCALE_CHOICES).map(|_| scale * (0.75 + 0.5 * random.uniform()));
        Ok(Self::Blocks(choices.map(|scale| Scale::new(tensor_type, scale)).collect()))
    }

    fn paint(&self, tensor_type: TensorType, buffer: &mut [u8], random: &mut Random) {
        let block_bytes = tensor_type.block_bytes() as usize;
        match self {
            Self::Floats(table) => buffer.chunks_exact_mut(block_bytes).for_each(|element| {
                let at = (random.next_u64() as usize % FLOAT_CHOICES) * block_bytes;
                element.copy_from_slice(&table[at..at + block_bytes]);
            }),
            Self::Blocks(scales) => {
                random.fill(buffer);
                buffer.chunks_exact_mut(block_bytes).enumerate().for_each(|(i, block)| {
                    scales[(i ^ usize::from(block[block_bytes - 1])) % SCALE_CHOICES].set(tensor_type, block);
                });
            }
        }
    }
}

/// Writes the rows of an embedding table or of its head, each drawn by itself: row `r` of the head is that row of
/// the table which comes before `r` in the cycle.
fn write_rows(
    out: &mut impl Write,
    slot: &Slot,
    rows: CycleRows,
    buffer: &mut Vec<u8>,
) -> Result<(), SynthError> {
    let Spread::Normal { deviation, .. } = slot.spread else { return Ok(()) };
    let painter = Painter::new(slot.tensor_type, deviation, &mut Random::new(rows.seed, 0))?;
    let count = slot.plan.size_bytes / slot.row_bytes();
    for row in 0..count {
        let drawn = if rows.is_head { before(row, rows.period, count) } else { row };
        buffer.resize(slot.row_bytes() as usize, 0);
        painter.paint(slot.tensor_type, buffer, &mut Random::new(rows.seed, 1 + drawn));
        out.write_all(buffer).map_err(WriteError::from)?;
    }
    write_padding(out, slot)
}

/// How the rows of a table or a head are drawn when the text is to be a cycle.
#[derive(Debug, Clone, Copy)]
struct CycleRows {
    seed: u64,
    period: u64,
    is_head: bool,
}

/// The token that `token` follows: cycles of `period` neighbours, the last one shorter.
fn before(token: u64, period: u64, count: u64) -> u64 {
    let start = token / period * period;
    let len = period.min(count - start);
    start + (token - start + len - 1) % len
}

fn write_padding(out: &mut impl Write, slot: &Slot) -> Result<(), SynthError> {
    let size_bytes = slot.plan.size_bytes;
    let padding = size_bytes.next_multiple_of(DEFAULT_ALIGNMENT) - size_bytes;
    Ok(out.write_all(&vec![0; padding as usize]).map_err(WriteError::from)?)
}

/// Writes one tensor and its padding.
fn write_tensor(
    out: &mut impl Write,
    slot: &Slot,
    random: &mut Random,
    buffer: &mut Vec<u8>,
) -> Result<(), SynthError> {
    let size_bytes = slot.plan.size_bytes;
    let matrix_deviation = match slot.spread {
        Spread::Normal { mean: 0.0, deviation } if slot.plan.dims.len() > 1 => Some(deviation),
        _ => None,
    };
    if let Some(deviation) = matrix_deviation {
        let painter = Painter::new(slot.tensor_type, deviation, random)?;
        let block_bytes = slot.tensor_type.block_bytes() as usize;
        let whole_blocks = BUFFER_BYTES / block_bytes * block_bytes;
        let mut left = size_bytes as usize;
        while left > 0 {
            buffer.resize(left.min(whole_blocks), 0);
            painter.paint(slot.tensor_type, buffer, random);
            out.write_all(buffer).map_err(WriteError::from)?;
            left -= buffer.len();
        }
    } else {
        out.write_all(&encode_slot(slot, random)?).map_err(WriteError::from)?;
    }
    write_padding(out, slot)
}

/// Writes a whole file of this shape and returns its size in bytes. With a `cycle`, what a model of this shape
/// says is known although every step costs what it always costs: token `t` is followed by the next of its
/// `cycle` neighbours, because attention and feed-forward add nothing to the residual stream, and a head of its
/// own has the rows of the table in the order of the cycle.
///
/// # Errors
/// [`SynthError`] when shape and types do not go together or writing fails.
pub fn write_model(
    out: &mut impl Write,
    shape: &Shape,
    types: WeightTypes,
    name: &str,
    seed: u64,
    cycle: Option<u32>,
) -> Result<u64, SynthError> {
    let vocabulary = Vocabulary::new(shape.vocabulary);
    let shape = &Shape { is_tied: shape.is_tied && cycle.is_none(), ..shape.clone() };
    let mut slots = tensors(shape, vocabulary.len(), types)?;
    if cycle.is_some() {
        arrange(&mut slots)?;
    }
    let plans: Vec<TensorPlan> = slots.iter().map(|slot| slot.plan.clone()).collect();
    let header = header_bytes(&metadata(shape, &vocabulary, name), &plans, DEFAULT_ALIGNMENT);
    out.write_all(&header).map_err(WriteError::from)?;
    let mut buffer = Vec::new();
    let mut size_bytes = header.len() as u64;
    for (stream, slot) in slots.iter().enumerate() {
        match cycle.filter(|_| is_table(slot) || is_head(slot)) {
            Some(period) => {
                let rows = CycleRows { seed, period: u64::from(period.max(1)), is_head: is_head(slot) };
                write_rows(out, slot, rows, &mut buffer)?;
            }
            None => write_tensor(out, slot, &mut Random::new(seed, stream as u64), &mut buffer)?,
        }
        size_bytes += slot.plan.size_bytes.next_multiple_of(DEFAULT_ALIGNMENT);
    }
    Ok(size_bytes)
}

fn is_table(slot: &Slot) -> bool {
    slot.plan.name == "token_embd.weight"
}

fn is_head(slot: &Slot) -> bool {
    slot.plan.name == "output.weight"
}

/// Table and head in the head's type; what layers add to the residual stream is nothing.
fn arrange(slots: &mut [Slot]) -> Result<(), SynthError> {
    let head_type = slots.iter().find(|slot| is_head(slot)).map(|slot| slot.tensor_type);
    for slot in slots {
        let adds = slot.plan.name.contains("attn_output.") || slot.plan.name.contains("ffn_down.");
        if adds {
            slot.spread = Spread::Normal { mean: 0.0, deviation: 0.0 };
        }
        if let Some(tensor_type) = head_type.filter(|_| is_table(slot)) {
            let rows = slot.plan.dims.iter().product::<u64>() / slot.columns;
            slot.tensor_type = tensor_type;
            slot.plan = TensorPlan::new(slot.plan.name.clone(), rows, slot.columns, tensor_type)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::before;

    #[test]
    fn every_token_follows_exactly_one_of_its_neighbours() {
        let order: Vec<u64> = (0..8).map(|token| before(token, 3, 8)).collect();
        assert_eq!(order, [2, 0, 1, 5, 3, 4, 7, 6]);
    }
}
