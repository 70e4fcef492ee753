//! File blocks taken apart, as the GGUF format defines them.

use fanlight_messages::TensorType;

use crate::quantise::BLOCK_LEN;

/// 32 neighbouring weights: `w[e] = d · scales[e / 16] · (codes[e] - zero) + m · minima[e / 16]`, where the
/// zero is the format's. `d` and `m` are halves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// As the resident format stores them.
    pub(super) codes: [u8; BLOCK_LEN],
    pub(super) d: u16,
    pub(super) m: u16,
    pub(super) scales: [u8; 2],
    pub(super) minima: [u8; 2],
}

/// The fixed table of IQ4_NL.
const IQ4_NL: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn nibble(byte: u8, upper: bool) -> u8 {
    if upper { byte >> 4 } else { byte & 15 }
}

/// Part `j` of a file block of a quantised type; types of 32 weights a block have the one part 0.
pub(super) fn part(file: TensorType, b: &[u8], j: usize) -> Part {
    let nibbles = |at: usize, e: usize| nibble(b[at + e % 16], e >= 16);
    let fifth = |at: usize, e: usize| ((b[at + e / 8] >> (e % 8)) & 1) << 4;
    let simple = |m: u16, code: &dyn Fn(usize) -> u8| Part {
        codes: std::array::from_fn(code),
        d: half(b, 0),
        m,
        scales: [1; 2],
        minima: [1; 2],
    };
    match file {
        TensorType::Q4_0 => simple(0, &|e| nibbles(2, e)),
        TensorType::Q4_1 => simple(half(b, 2), &|e| nibbles(4, e)),
        TensorType::Q5_0 => simple(0, &|e| (nibbles(6, e) | fifth(2, e)).wrapping_sub(16)),
        TensorType::Q5_1 => simple(half(b, 2), &|e| nibbles(8, e) | fifth(4, e)),
        TensorType::Q8_0 => simple(0, &|e| b[2 + e]),
        TensorType::Iq4Nl => simple(0, &|e| IQ4_NL[usize::from(nibbles(2, e))] as u8),
        TensorType::Q2K => q2k(b, j),
        TensorType::Q3K => q3k(b, j),
        TensorType::Q4K => q4k(b, j, &|e| nibble(b[16 + 32 * (j / 2) + e], j % 2 == 1)),
        TensorType::Q5K => {
            q4k(b, j, &|e| nibble(b[48 + 32 * (j / 2) + e], j % 2 == 1) | ((b[16 + e] >> j) & 1) << 4)
        }
        TensorType::Q6K => q6k(b, j),
        TensorType::F32 | TensorType::F16 | TensorType::Bf16 => unreachable!("floats have no parts"),
    }
}

fn q2k(b: &[u8], j: usize) -> Part {
    let pair = |shift: u8| [b[2 * j], b[2 * j + 1]].map(|s| (s >> shift) & 15);
    Part {
        codes: std::array::from_fn(|e| (b[16 + 32 * (j / 4) + e] >> (2 * (j % 4))) & 3),
        d: half(b, 80),
        m: half(b, 82),
        scales: pair(0),
        minima: pair(4),
    }
}

fn q3k(b: &[u8], j: usize) -> Part {
    let scale = |i: usize| {
        let low = nibble(b[96 + i % 8], i >= 8);
        let high = (b[104 + i % 4] >> (2 * (i / 4))) & 3;
        (low | (high << 4)).wrapping_sub(32)
    };
    Part {
        codes: std::array::from_fn(|e| {
            let low = (b[32 + 32 * (j / 4) + e] >> (2 * (j % 4))) & 3;
            low | ((b[e] >> j) & 1) << 2
        }),
        d: half(b, 108),
        m: 0,
        scales: [scale(2 * j), scale(2 * j + 1)],
        minima: [0; 2],
    }
}

/// Q4_K and Q5_K share their scales.
fn q4k(b: &[u8], j: usize, code: &dyn Fn(usize) -> u8) -> Part {
    let s = &b[4..16];
    let (scale, minimum) = if j < 4 {
        (s[j] & 63, s[j + 4] & 63)
    } else {
        ((s[j + 4] & 15) | ((s[j - 4] >> 6) << 4), (s[j + 4] >> 4) | ((s[j] >> 6) << 4))
    };
    Part {
        codes: std::array::from_fn(code),
        d: half(b, 0),
        m: half(b, 2),
        scales: [scale; 2],
        minima: [minimum; 2],
    }
}

fn q6k(b: &[u8], j: usize) -> Part {
    let (h, p) = (j / 4, j % 4);
    Part {
        codes: std::array::from_fn(|e| {
            let low = nibble(b[64 * h + 32 * (p % 2) + e], p >= 2);
            low | ((b[128 + 32 * h + e] >> (2 * p)) & 3) << 4
        }),
        d: half(b, 208),
        m: 0,
        scales: [0, 1].map(|half| b[192 + 8 * h + 2 * p + half]),
        minima: [0; 2],
    }
}
