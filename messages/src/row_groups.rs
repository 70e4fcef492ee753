//! How weights lie in memory for a processor: groups of sixteen rows, so that row r of a group is lane r of
//! every register and no sum crosses lanes. Pure arithmetic, shared by the kernels that read the groups and
//! the plan that pays for them.
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

use crate::TensorType;
use crate::plan::GpuPlan;
use crate::program::{Op, Program, ValueId};

/// Rows of a group.
pub const GROUP_ROWS: usize = 16;
/// Most rows of a batch that lie together.
pub const TILE_ROWS: usize = 8;

/// Rows that the buffers of a batch have room for: whole tiles.
pub fn batch_rows(plan: &GpuPlan) -> usize {
    (plan.batch_rows as usize).next_multiple_of(TILE_ROWS)
}

/// Rows that a value has room for: those of a batch, or of logits.
pub fn value_rows(program: &Program, plan: &GpuPlan, value: ValueId) -> usize {
    match program.head {
        Op::Multiply { output, .. } if output == value => {
            (plan.request.logits_rows as usize).next_multiple_of(TILE_ROWS)
        }
        _ => batch_rows(plan),
    }
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
            Self::Nibble => GROUP_ROWS * (16 + 2),
            Self::NibbleMin => GROUP_ROWS * (16 + 4),
            Self::Byte => GROUP_ROWS * (32 + 2),
            Self::ByteMin => GROUP_ROWS * (32 + 4),
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
        GROUP_ROWS * if self.is_nibble() { 128 } else { 256 }
    }

    /// Bytes of sixteen rows of a superblock.
    pub const fn bytes(self) -> usize {
        let planes = if self.has_minima() { 2 } else { 1 };
        self.code_bytes() + planes * GROUP_ROWS * (self.scales() + 2)
    }
}

impl Format {
    /// Where tensors of a type go.
    pub fn of(tensor_type: TensorType) -> Self {
        match tensor_type {
            TensorType::F32 => Self::Float(Float::F32),
            TensorType::F16 => Self::Float(Float::F16),
            TensorType::Bf16 => Self::Float(Float::Bf16),
            TensorType::Q4_0 => Self::Block(BlockFormat::Nibble),
            TensorType::Q4_1 => Self::Block(BlockFormat::NibbleMin),
            TensorType::Q5_1 => Self::Block(BlockFormat::ByteMin),
            TensorType::Q5_0 | TensorType::Q8_0 | TensorType::Iq4Nl => Self::Block(BlockFormat::Byte),
            TensorType::Q2K => Self::Super(SuperFormat::Q2K),
            TensorType::Q3K => Self::Super(SuperFormat::Q3K),
            TensorType::Q4K => Self::Super(SuperFormat::Q4K),
            TensorType::Q5K => Self::Super(SuperFormat::Q5K),
            TensorType::Q6K => Self::Super(SuperFormat::Q6K),
        }
    }

    /// Bytes of a group of sixteen rows of `columns`, a multiple of 32 (of 256 for superblocks).
    pub fn group_bytes(self, columns: usize) -> usize {
        match self {
            Self::Float(Float::F32) => columns * GROUP_ROWS * 4,
            Self::Float(_) => columns * GROUP_ROWS * 2,
            Self::Block(format) => columns / 32 * format.bytes(),
            Self::Super(format) => columns / 256 * format.bytes(),
        }
    }

    /// Bytes of a matrix.
    pub fn matrix_bytes(self, rows: u64, columns: u32) -> u64 {
        rows.div_ceil(GROUP_ROWS as u64) * self.group_bytes(columns as usize) as u64
    }
}
