//! The key/value cache of one KV head of one layer.
//!
//! ```text
//! keys    groups of 16 positions, as weights lie: scores are a product with queries
//!         q8   [group][block of 32][chunk of 4 elements][position][4] int8, then [position] f32 scales
//!         f16  [group][element][position] halves; f32 likewise
//! values  [position][element]; q8: int8 in blocks of 32, then [position][block] f32 scales
//! ```
//!
//! A head whose length is no multiple of 32 is filled up with zeros in q8.

use half::f16;

use crate::quantise::{BLOCK_LEN, codes_of};
use crate::simd::Simd;
use crate::tiles::LANES;

/// Largest half; keys and values are clamped to it in an f16 cache.
const HALF_MAX: f32 = 65_504.0;

/// Format of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CacheFormat {
    /// int8 with an f32 scale per 32 elements.
    Q8,
    /// Half precision.
    F16,
    /// Single precision.
    F32,
}

/// What a head's cache looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// Format of keys and values.
    pub format: CacheFormat,
    /// Elements of a head.
    pub head_len: usize,
    /// Positions, a multiple of 16.
    pub rows: usize,
}

/// Bytes of a block of sixteen keys.
pub const KEY_BLOCK_BYTES: usize = LANES * (BLOCK_LEN + 4);

impl CacheShape {
    /// Blocks of a head.
    pub fn blocks(self) -> usize {
        self.head_len.div_ceil(BLOCK_LEN)
    }

    /// Bytes of sixteen keys.
    pub fn key_group_bytes(self) -> usize {
        match self.format {
            CacheFormat::Q8 => self.blocks() * KEY_BLOCK_BYTES,
            CacheFormat::F16 => self.head_len * LANES * 2,
            CacheFormat::F32 => self.head_len * LANES * 4,
        }
    }

    /// Bytes of all keys.
    pub fn key_bytes(self) -> usize {
        self.rows / LANES * self.key_group_bytes()
    }

    /// Bytes of a position's value, without its scales.
    fn value_row_bytes(self) -> usize {
        match self.format {
            CacheFormat::Q8 => self.blocks() * BLOCK_LEN,
            CacheFormat::F16 => self.head_len * 2,
            CacheFormat::F32 => self.head_len * 4,
        }
    }

    /// Bytes of all values.
    pub fn value_bytes(self) -> usize {
        let scales = if self.format == CacheFormat::Q8 { self.blocks() * 4 } else { 0 };
        self.rows * (self.value_row_bytes() + scales)
    }

    /// Bytes of a head: keys, then values.
    pub fn bytes(self) -> usize {
        self.key_bytes() + self.value_bytes()
    }

    fn scale_at(self, row: usize, block: usize) -> usize {
        self.rows * self.value_row_bytes() + (row * self.blocks() + block) * 4
    }
}

/// Writes a position's key and value; false when one is not finite.
#[inline(always)]
pub fn put<S: Simd>(
    s: S,
    shape: CacheShape,
    head: &mut [u8],
    row: usize,
    key: &[f32],
    value: &[f32],
) -> bool {
    let (keys, values) = head.split_at_mut(shape.key_bytes());
    let group = &mut keys[row / LANES * shape.key_group_bytes()..][..shape.key_group_bytes()];
    let lane = row % LANES;
    let width = match shape.format {
        CacheFormat::Q8 => {
            let key_is_finite = put_key_codes(s, group, lane, key);
            return put_value_codes(s, shape, values, row, value) && key_is_finite;
        }
        CacheFormat::F16 => 2,
        CacheFormat::F32 => 4,
    };
    let value_row = &mut values[row * shape.value_row_bytes()..][..shape.value_row_bytes()];
    let mut is_finite = true;
    let mut place = |to: &mut [u8], x: f32| {
        is_finite &= x.is_finite();
        if width == 2 {
            to.copy_from_slice(&f16::from_f32(x.clamp(-HALF_MAX, HALF_MAX)).to_le_bytes());
        } else {
            to.copy_from_slice(&x.to_le_bytes());
        }
    };
    for (e, x) in key.iter().enumerate() {
        place(&mut group[(e * LANES + lane) * width..][..width], *x);
    }
    for (to, x) in value_row.chunks_exact_mut(width).zip(value) {
        place(to, *x);
    }
    is_finite
}

/// 32 elements of a head, zeros beyond its end.
#[inline(always)]
pub(crate) fn padded(x: &[f32], block: usize) -> [f32; BLOCK_LEN] {
    let mut out = [0.0; BLOCK_LEN];
    let part = &x[block * BLOCK_LEN..x.len().min((block + 1) * BLOCK_LEN)];
    out[..part.len()].copy_from_slice(part);
    out
}

#[inline(always)]
fn put_key_codes<S: Simd>(s: S, group: &mut [u8], lane: usize, key: &[f32]) -> bool {
    let mut all_finite = true;
    for (block, to) in group.chunks_exact_mut(KEY_BLOCK_BYTES).enumerate() {
        let (scale, codes, is_finite) = codes_of(s, &padded(key, block));
        for (chunk, four) in codes.as_chunks::<4>().0.iter().enumerate() {
            to[(chunk * LANES + lane) * 4..][..4].copy_from_slice(&four.map(|code| code as u8));
        }
        to[LANES * BLOCK_LEN + lane * 4..][..4].copy_from_slice(&scale.to_le_bytes());
        all_finite &= is_finite;
    }
    all_finite
}

#[inline(always)]
fn put_value_codes<S: Simd>(s: S, shape: CacheShape, values: &mut [u8], row: usize, value: &[f32]) -> bool {
    let mut all_finite = true;
    for block in 0..shape.blocks() {
        let (scale, codes, is_finite) = codes_of(s, &padded(value, block));
        let to = &mut values[(row * shape.blocks() + block) * BLOCK_LEN..][..BLOCK_LEN];
        for (to, code) in to.iter_mut().zip(codes) {
            *to = code as u8;
        }
        values[shape.scale_at(row, block)..][..4].copy_from_slice(&scale.to_le_bytes());
        all_finite &= is_finite;
    }
    all_finite
}

/// A position's value as numbers. `to` is as long as a head, rounded up to whole registers of 16.
#[inline(always)]
pub(crate) fn read_value<S: Simd>(s: S, shape: CacheShape, values: &[u8], row: usize, to: &mut [f32]) {
    let bytes = &values[row * shape.value_row_bytes()..][..shape.value_row_bytes()];
    match shape.format {
        CacheFormat::Q8 => {
            for (block, codes) in bytes.chunks_exact(BLOCK_LEN).enumerate() {
                let scale: [u8; 4] =
                    values[shape.scale_at(row, block)..][..4].try_into().expect("four bytes");
                let scale = s.splat(f32::from_le_bytes(scale));
                for at in (0..BLOCK_LEN).step_by(S::LANES) {
                    // The last block may reach beyond the head.
                    if block * BLOCK_LEN + at < to.len() {
                        let codes = s.load_i8(&codes[at..][..S::LANES]);
                        s.store(&mut to[block * BLOCK_LEN + at..][..S::LANES], s.mul(codes, scale));
                    }
                }
            }
        }
        CacheFormat::F16 => {
            for (to, half) in to.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *to = crate::simd::half_to_f32(u16::from_le_bytes(*half));
            }
        }
        CacheFormat::F32 => {
            for (to, four) in to.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *to = f32::from_le_bytes(*four);
            }
        }
    }
}

/// Copies a position's key and value to another one.
pub fn copy_row(shape: CacheShape, head: &mut [u8], from: usize, to: usize) {
    let (keys, values) = head.split_at_mut(shape.key_bytes());
    let group = |row: usize| row / LANES * shape.key_group_bytes();
    let mut copy_lane = |start: usize, width: usize| {
        let at = |row: usize| group(row) + start + row % LANES * width;
        keys.copy_within(at(from)..at(from) + width, at(to));
    };
    match shape.format {
        CacheFormat::Q8 => {
            for block in 0..shape.blocks() {
                for chunk in 0..=BLOCK_LEN / 4 {
                    // Behind eight chunks of codes are the scales.
                    copy_lane(block * KEY_BLOCK_BYTES + chunk * LANES * 4, 4);
                }
            }
            let blocks = shape.blocks();
            let scale = |row: usize| shape.scale_at(row, 0);
            values.copy_within(scale(from)..scale(from) + 4 * blocks, scale(to));
        }
        CacheFormat::F16 => (0..shape.head_len).for_each(|e| copy_lane(e * LANES * 2, 2)),
        CacheFormat::F32 => (0..shape.head_len).for_each(|e| copy_lane(e * LANES * 4, 4)),
    }
    let len = shape.value_row_bytes();
    values.copy_within(from * len..(from + 1) * len, to * len);
}
