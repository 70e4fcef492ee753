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
    let padding = size_bytes.next_multiple_of(DEFAULT_ALIGNMENT) - size_bytes;
    Ok(out.write_all(&vec![0; padding as usize]).map_err(WriteError::from)?)
}

/// Writes a whole file of this shape and returns its size in bytes.
///
/// # Errors
/// [`SynthError`] when shape and types do not go together or writing fails.
pub fn write_model(
    out: &mut impl Write,
    shape: &Shape,
    types: WeightTypes,
    name: &str,
    seed: u64,
) -> Result<u64, SynthError> {
    let vocabulary = Vocabulary::new(shape.vocabulary);
    let slots = tensors(shape, vocabulary.len(), types)?;
    let plans: Vec<TensorPlan> = slots.iter().map(|slot| slot.plan.clone()).collect();
    let header = header_bytes(&metadata(shape, &vocabulary, name), &plans, DEFAULT_ALIGNMENT);
    out.write_all(&header).map_err(WriteError::from)?;
    let mut buffer = Vec::new();
    let mut size_bytes = header.len() as u64;
    for (stream, slot) in slots.iter().enumerate() {
        write_tensor(out, slot, &mut Random::new(seed, stream as u64), &mut buffer)?;
        size_bytes += slot.plan.size_bytes.next_multiple_of(DEFAULT_ALIGNMENT);
    }
    Ok(size_bytes)
}
