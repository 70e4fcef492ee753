//! Weights as they stay in memory: groups of sixteen rows, so that row r of a group is lane r of every
//! register and no sum crosses lanes.
//!
//! ```text
//! group of 16 rows
//!   block of 32 columns           codes  [chunk of 4 columns][row][4], nibbles: chunk c low, c + 4 high
//!                                 scales [row] halves d, then halves m where there are minima
//!   or superblock of 256 columns  codes  nibbles: 4 pairs of blocks [chunk of 4][row][4], the first low
//!                                        bytes: 8 blocks [chunk of 4][row][4]
//!                                 scales [block or half block][row] bytes, then minima likewise
//!                                 d [row] halves, then dmin [row] halves
//!   or column                     [row] f32, halves or bfloat16
//! ```
//!
//! Rows beyond the last are zero.

mod embed;
mod part;
mod repack;

pub use embed::weight_row;
pub use repack::repack_rows;

use crate::tiles::LANES;

/// File types by what distinguishes them here. The names are those of the GGUF format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "named after the file formats")]
pub enum FileType {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Iq4Nl,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
}

/// How a matrix lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Floats by column.
    Float(Float),
    /// Blocks of 32.
    Block(BlockFormat),
    /// Superblocks of 256.
    Super(SuperFormat),
}

/// Float weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Float {
    /// Single precision.
    F32,
    /// Half precision.
    F16,
    /// The upper half of an f32.
    Bf16,
}

/// Codes and scales of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockFormat {
    /// d · (nibble - 8).
    Nibble,
    /// d · nibble + m.
    NibbleMin,
    /// d · int8.
    Byte,
    /// d · byte + m, codes up to 127.
    ByteMin,
}

/// Codes and scales of superblocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SuperFormat {
    /// d · s · q - dmin · n, nibbles, scales of half blocks.
    Q2K,
    /// d · s · (q - 4), nibbles, signed scales of half blocks.
    Q3K,
    /// d · s · q - dmin · n, nibbles, scales of blocks.
    Q4K,
    /// The same with bytes.
    Q5K,
    /// d · s · (q - 32), bytes, signed scales of half blocks.
    Q6K,
}

impl BlockFormat {
    /// Bytes of sixteen rows of a block.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Nibble => LANES * (16 + 2),
            Self::NibbleMin => LANES * (16 + 4),
            Self::Byte => LANES * (32 + 2),
            Self::ByteMin => LANES * (32 + 4),
        }
    }
}

impl SuperFormat {
    /// True when codes are nibbles.
    pub const fn is_nibble(self) -> bool {
        matches!(self, Self::Q2K | Self::Q3K | Self::Q4K)
    }

    /// Scales of a superblock and row: one for each half block or block.
    pub const fn scales(self) -> usize {
        if matches!(self, Self::Q4K | Self::Q5K) { 8 } else { 16 }
    }

    /// True when it has minima.
    pub const fn has_minima(self) -> bool {
        matches!(self, Self::Q2K | Self::Q4K | Self::Q5K)
    }

    /// What is taken off each code.
    pub const fn zero(self) -> i32 {
        match self {
            Self::Q3K => 4,
            Self::Q6K => 32,
            _ => 0,
        }
    }

    /// Bytes of the codes of sixteen rows.
    pub const fn code_bytes(self) -> usize {
        LANES * if self.is_nibble() { 128 } else { 256 }
    }

    /// Bytes of sixteen rows of a superblock.
    pub const fn bytes(self) -> usize {
        let planes = if self.has_minima() { 2 } else { 1 };
        self.code_bytes() + planes * LANES * (self.scales() + 2)
    }
}

impl Format {
    /// Where tensors of a type go.
    pub fn of(file: FileType) -> Self {
        match file {
            FileType::F32 => Self::Float(Float::F32),
            FileType::F16 => Self::Float(Float::F16),
            FileType::Bf16 => Self::Float(Float::Bf16),
            FileType::Q4_0 => Self::Block(BlockFormat::Nibble),
            FileType::Q4_1 => Self::Block(BlockFormat::NibbleMin),
            FileType::Q5_1 => Self::Block(BlockFormat::ByteMin),
            FileType::Q5_0 | FileType::Q8_0 | FileType::Iq4Nl => Self::Block(BlockFormat::Byte),
            FileType::Q2K => Self::Super(SuperFormat::Q2K),
            FileType::Q3K => Self::Super(SuperFormat::Q3K),
            FileType::Q4K => Self::Super(SuperFormat::Q4K),
            FileType::Q5K => Self::Super(SuperFormat::Q5K),
            FileType::Q6K => Self::Super(SuperFormat::Q6K),
        }
    }

    /// Bytes of a group of sixteen rows of `columns`, a multiple of 32 (of 256 for superblocks).
    pub fn group_bytes(self, columns: usize) -> usize {
        match self {
            Self::Float(Float::F32) => columns * LANES * 4,
            Self::Float(_) => columns * LANES * 2,
            Self::Block(format) => columns / 32 * format.bytes(),
            Self::Super(format) => columns / 256 * format.bytes(),
        }
    }

    /// Bytes of a matrix.
    pub fn matrix_bytes(self, rows: u64, columns: u32) -> u64 {
        rows.div_ceil(LANES as u64) * self.group_bytes(columns as usize) as u64
    }
}

/// A matrix, or some groups of one.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    /// Its form.
    pub format: Format,
    /// Elements of a row.
    pub columns: usize,
    /// Blocks of a slab: sums run inside a slab, then over slabs.
    pub slab_blocks: usize,
    /// Groups, in order.
    pub bytes: &'a [u8],
}

impl Matrix<'_> {
    /// One group.
    #[inline(always)]
    pub fn group(&self, index: usize) -> &[u8] {
        let bytes = self.format.group_bytes(self.columns);
        &self.bytes[index * bytes..][..bytes]
    }
}
