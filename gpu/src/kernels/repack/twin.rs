//! The plain repack: file blocks taken apart as the GGUF format defines them, and put together as the
//! resident planes that `messages::layout` defines. Also the weights themselves, which the twins of all
//! weight kernels multiply.

use fanlight_messages::TensorType;
use fanlight_messages::layout::{ResidentFormat, SlabLayout};
use half::{bf16, f16};

use crate::kernels::testing::quantised::position;
use crate::lab::{Lab, LabBuffer, LabPlanes};

/// A weight as an exact sum of a scaled code and an offset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::kernels) struct Weight {
    pub(in crate::kernels) value: f64,
    /// |scaled code| + |offset|: what rounding errors are relative to.
    pub(in crate::kernels) magnitude: f64,
}

/// 32 neighbouring weights, as integers and the halves that scale them:
/// `w[e] = d · scales[e / 16] · (codes[e] - zero) + m · minima[e / 16]`.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    codes: [i32; 32],
    zero: i32,
    d: f32,
    scales: [i32; 2],
    m: f32,
    minima: [i32; 2],
}

/// The fixed table of IQ4_NL.
const IQ4_NL: [i32; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

fn half(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

fn nibble(byte: u8, upper: bool) -> i32 {
    i32::from(if upper { byte >> 4 } else { byte & 15 })
}

/// Part `j` of a file block; types of 32 weights a block have the one part 0.
fn part(tensor_type: TensorType, b: &[u8], j: usize) -> Part {
    let simple = |zero, m, minimum, code: &dyn Fn(usize) -> i32| Part {
        codes: std::array::from_fn(code),
        zero,
        d: half(b, 0),
        scales: [1, 1],
        m,
        minima: [minimum, minimum],
    };
    let nibbles = |at: usize, e: usize| nibble(b[at + e % 16], e >= 16);
    let fifth = |at: usize, e: usize| i32::from((b[at + e / 8] >> (e % 8)) & 1) << 4;
    match tensor_type {
        TensorType::Q4_0 => simple(8, 0.0, 0, &|e| nibbles(2, e)),
        TensorType::Q4_1 => simple(0, half(b, 2), 1, &|e| nibbles(4, e)),
        TensorType::Q5_0 => simple(16, 0.0, 0, &|e| nibbles(6, e) | fifth(2, e)),
        TensorType::Q5_1 => simple(0, half(b, 2), 1, &|e| nibbles(8, e) | fifth(4, e)),
        TensorType::Q8_0 => simple(0, 0.0, 0, &|e| i32::from(b[2 + e] as i8)),
        TensorType::Iq4Nl => simple(0, 0.0, 0, &|e| IQ4_NL[nibbles(2, e) as usize]),
        TensorType::Q2K => q2k(b, j),
        TensorType::Q3K => q3k(b, j),
        TensorType::Q4K => q4k(b, j, &|e| nibble(b[16 + 32 * (j / 2) + e], j % 2 == 1)),
        TensorType::Q5K => q4k(b, j, &|e| {
            nibble(b[48 + 32 * (j / 2) + e], j % 2 == 1) | (i32::from((b[16 + e] >> j) & 1) << 4)
        }),
        TensorType::Q6K => q6k(b, j),
        TensorType::F32 | TensorType::F16 | TensorType::Bf16 => unreachable!("floats have no parts"),
    }
}

fn q2k(b: &[u8], j: usize) -> Part {
    let pair = |shift: u8| [b[2 * j], b[2 * j + 1]].map(|s| i32::from((s >> shift) & 15));
    Part {
        codes: std::array::from_fn(|e| i32::from((b[16 + 32 * (j / 4) + e] >> (2 * (j % 4))) & 3)),
        zero: 0,
        d: half(b, 80),
        scales: pair(0),
        m: half(b, 82),
        minima: pair(4).map(|m| -m),
    }
}

fn q3k(b: &[u8], j: usize) -> Part {
    let scale = |i: usize| {
        let low = nibble(b[96 + i % 8], i >= 8);
        let high = i32::from((b[104 + i % 4] >> (2 * (i / 4))) & 3);
        (low | (high << 4)) - 32
    };
    Part {
        codes: std::array::from_fn(|e| {
            let low = i32::from((b[32 + 32 * (j / 4) + e] >> (2 * (j % 4))) & 3);
            low | (i32::from((b[e] >> j) & 1) << 2)
        }),
        zero: 4,
        d: half(b, 108),
        scales: [scale(2 * j), scale(2 * j + 1)],
        m: 0.0,
        minima: [0, 0],
    }
}

/// Q4_K and Q5_K share their scales.
fn q4k(b: &[u8], j: usize, code: &dyn Fn(usize) -> i32) -> Part {
    let s = &b[4..16];
    let (scale, minimum) = if j < 4 {
        (s[j] & 63, s[j + 4] & 63)
    } else {
        ((s[j + 4] & 15) | ((s[j - 4] >> 6) << 4), (s[j + 4] >> 4) | ((s[j] >> 6) << 4))
    };
    Part {
        codes: std::array::from_fn(code),
        zero: 0,
        d: half(b, 0),
        scales: [i32::from(scale); 2],
        m: half(b, 2),
        minima: [-i32::from(minimum); 2],
    }
}

fn q6k(b: &[u8], j: usize) -> Part {
    let (h, p) = (j / 4, j % 4);
    Part {
        codes: std::array::from_fn(|e| {
            let low = nibble(b[64 * h + 32 * (p % 2) + e], p >= 2);
            low | (i32::from((b[128 + 32 * h + e] >> (2 * p)) & 3) << 4)
        }),
        zero: 32,
        d: half(b, 208),
        scales: [0, 1].map(|half| i32::from(b[192 + 8 * h + 2 * p + half] as i8)),
        m: 0.0,
        minima: [0, 0],
    }
}

/// The bits of float weight `e`, as stored.
fn float_bits(tensor_type: TensorType, bytes: &[u8], e: usize) -> u32 {
    if tensor_type == TensorType::F32 {
        u32::from_le_bytes([bytes[4 * e], bytes[4 * e + 1], bytes[4 * e + 2], bytes[4 * e + 3]])
    } else {
        u32::from(u16::from_le_bytes([bytes[2 * e], bytes[2 * e + 1]]))
    }
}

/// The weights of whole file blocks, in order.
pub(in crate::kernels) fn weights(tensor_type: TensorType, bytes: &[u8]) -> Vec<Weight> {
    if tensor_type.is_float() {
        let count = bytes.len() / tensor_type.block_bytes() as usize;
        return (0..count)
            .map(|e| {
                let bits = float_bits(tensor_type, bytes, e);
                let value = f64::from(match tensor_type {
                    TensorType::F32 => f32::from_bits(bits),
                    TensorType::F16 => f16::from_bits(bits as u16).to_f32(),
                    _ => bf16::from_bits(bits as u16).to_f32(),
                });
                Weight { value, magnitude: value.abs() }
            })
            .collect();
    }
    let parts = tensor_type.block_len() as usize / 32;
    let blocks = bytes.chunks_exact(tensor_type.block_bytes() as usize);
    blocks
        .flat_map(|block| (0..parts).map(|j| part(tensor_type, block, j)))
        .flat_map(|part| {
            (0..32).map(move |e| {
                let scaled = f64::from(part.d) * f64::from(part.scales[e / 16] * (part.codes[e] - part.zero));
                let offset = f64::from(part.m) * f64::from(part.minima[e / 16]);
                Weight { value: scaled + offset, magnitude: scaled.abs() + offset.abs() }
            })
        })
        .collect()
}

/// The planes of a page, as words; those that a format lacks are empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::kernels) struct Planes {
    pub(in crate::kernels) codes: Vec<u32>,
    pub(in crate::kernels) high: Vec<u32>,
    pub(in crate::kernels) scales: Vec<u32>,
    pub(in crate::kernels) supers: Vec<u32>,
}

impl Planes {
    /// The same in the lab.
    pub(in crate::kernels) async fn upload(&self, lab: &Lab) -> LabPlanes {
        let plane = async |words: &[u32]| match words {
            [] => None,
            words => Some(lab.words(words).await.expect("a buffer")),
        };
        LabPlanes {
            codes: lab.words(&self.codes).await.expect("a buffer"),
            high: plane(&self.high).await,
            scales: plane(&self.scales).await,
            supers: plane(&self.supers).await,
        }
    }

    /// As many words of `word`.
    pub(in crate::kernels) fn filled(&self, word: u32) -> Self {
        let fill = |words: &[u32]| vec![word; words.len()];
        Self {
            codes: fill(&self.codes),
            high: fill(&self.high),
            scales: fill(&self.scales),
            supers: fill(&self.supers),
        }
    }

    /// What the lab holds now, as many words as here.
    pub(in crate::kernels) async fn read(&self, lab: &Lab, from: &LabPlanes) -> Self {
        let read = async |buffer: &LabBuffer, words: &[u32]| {
            lab.read(buffer, words.len()).await.expect("a readback")
        };
        let some = async |buffer: &Option<LabBuffer>, words: &[u32]| match buffer {
            Some(buffer) => read(buffer, words).await,
            None => Vec::new(),
        };
        Self {
            codes: read(&from.codes, &self.codes).await,
            high: some(&from.high, &self.high).await,
            scales: some(&from.scales, &self.scales).await,
            supers: some(&from.supers, &self.supers).await,
        }
    }

    /// With their names.
    pub(in crate::kernels) fn named(&self) -> [(&'static str, &[u32]); 4] {
        [("codes", &self.codes), ("high", &self.high), ("scales", &self.scales), ("supers", &self.supers)]
    }
}

/// Repacks `rows` rows of `columns` weights.
pub(in crate::kernels) fn repack(tensor_type: TensorType, bytes: &[u8], rows: usize, columns: u32) -> Planes {
    let layout = SlabLayout::for_columns(columns);
    let (padded, widths) = (layout.padded_blocks() as usize, ResidentFormat::of(tensor_type).widths());
    let supers = columns.div_ceil(256) as usize;
    let words = |count: usize, bytes: u64| vec![0u32; (count * bytes as usize).div_ceil(4)];
    let mut planes = Planes {
        codes: words(rows * padded, widths.codes_bytes),
        high: words(rows * padded, widths.high_bytes),
        scales: words(rows * padded, widths.scale_bytes),
        supers: words(rows * supers, widths.super_bytes),
    };
    let row_bytes = bytes.len() / rows;
    let parts = (tensor_type.block_len() as usize / 32).max(1);
    for row in 0..rows {
        let data = &bytes[row * row_bytes..][..row_bytes];
        for block in 0..layout.blocks as usize {
            let at = row * padded + position(layout, block);
            if tensor_type.is_float() {
                for e in 0..32 {
                    let bits = float_bits(tensor_type, data, block * 32 + e);
                    place_float(&mut planes.codes, widths.codes_bytes as usize, at, e, bits);
                }
                continue;
            }
            let file_block = &data[block / parts * tensor_type.block_bytes() as usize..];
            let part = part(tensor_type, file_block, block % parts);
            place_codes(&mut planes, ResidentFormat::of(tensor_type), at, &part.codes);
            let superblock = row * supers + block / 8;
            place_scales(&mut planes, ResidentFormat::of(tensor_type), at, superblock, &part);
        }
    }
    planes
}

fn place_float(codes: &mut [u32], block_bytes: usize, at: usize, e: usize, bits: u32) {
    let element_bytes = block_bytes / 32;
    let byte = at * block_bytes + e * element_bytes;
    codes[byte / 4] |= bits << (8 * (byte % 4));
}

/// Codes in nibbles (elements 0..16 low, 16..32 high, four elements of each to a word) or bytes; the bits
/// above a nibble in the high plane, beside each other as the nibbles' words are: element `4w + k` of half
/// `h` at bit `8k + 4h + w` when there is one, bits `8k + 2w` of word `h` when there are two.
fn place_codes(planes: &mut Planes, format: ResidentFormat, at: usize, codes: &[i32; 32]) {
    let widths = format.widths();
    for (e, code) in codes.iter().enumerate() {
        let (half, word, byte) = (e / 16, e % 16 / 4, e % 4);
        if format == ResidentFormat::Q8_0 {
            planes.codes[at * 8 + e / 4] |= u32::from(*code as i8 as u8) << (8 * byte);
            continue;
        }
        let code = *code as u32;
        planes.codes[at * 4 + word] |= (code & 15) << (8 * byte + 4 * half);
        match widths.high_bytes {
            4 => planes.high[at] |= (code >> 4) << (8 * byte + 4 * half + word),
            8 => planes.high[at * 2 + half] |= (code >> 4) << (8 * byte + 2 * word),
            _ => assert!(code < 16, "a code without high bits is a nibble"),
        }
    }
}

fn place_scales(planes: &mut Planes, format: ResidentFormat, at: usize, superblock: usize, part: &Part) {
    let ([s0, s1], [m0, m1]) = (part.scales, part.minima.map(|m| -m));
    let integers = match format {
        ResidentFormat::Q2K => Some([s0 | (m0 << 4), s1 | (m1 << 4)]),
        ResidentFormat::Q4K | ResidentFormat::Q5K => Some([s0, m0]),
        ResidentFormat::Q3K | ResidentFormat::Q6K => Some([s0, s1]),
        _ => None,
    };
    let floats: &[f32] = match format {
        ResidentFormat::Q4_1
        | ResidentFormat::Q5_1
        | ResidentFormat::Q2K
        | ResidentFormat::Q4K
        | ResidentFormat::Q5K => &[part.d, part.m],
        _ => &[part.d],
    };
    let bits = floats.iter().map(|f| f.to_bits());
    match integers {
        Some([first, second]) => {
            let word = u32::from(first as u8) | (u32::from(second as u8) << 8);
            planes.scales[at / 2] |= word << (16 * (at % 2));
            planes.supers[superblock * floats.len()..].iter_mut().zip(bits).for_each(|(to, b)| *to = b);
        }
        None => planes.scales[at * floats.len()..].iter_mut().zip(bits).for_each(|(to, b)| *to = b),
    }
}
