//! Where bytes lie on the GPU: slab order, weight planes, activations. Pure arithmetic, shared by the kernels
//! that read the planes and the ledger that pays for them.
//!
//! A row of K weights is NB = K/32 blocks, cut into S slabs of `blocks_per_slab` neighbouring blocks. One
//! lane of a matrix kernel owns one slab. Block b of a row (slab `s = b / blocks_per_slab`, index `i = b %
//! blocks_per_slab`) is stored at position `i * S + s`, so that neighbouring lanes read neighbouring blocks:
//!
//! ```text
//! blocks      0 1 2 | 3 4 5 | 6 7 -        S = 3, blocks_per_slab = 3, one padding block
//! positions   0 3 6 | 1 4 7 | 2 5 8
//! ```

use crate::TensorType;

/// Weights per block: the unit that all planes and activations are addressed by.
pub const BLOCK_LEN: u32 = 32;
/// Most slabs of a row, and so most lanes of a matrix kernel's row group.
pub const SLABS_MAX: u32 = 64;
/// Planes start at multiples of this (WebGPU's default `minStorageBufferOffsetAlignment`).
pub const PLANE_ALIGNMENT: u64 = 256;

/// How a row of K elements is cut into slabs: a function of K alone, because the order of additions follows
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlabLayout {
    /// Real blocks of a row.
    pub blocks: u32,
    /// Slabs (S).
    pub slabs: u32,
    /// Blocks per slab, the last slabs padded with zero blocks.
    pub blocks_per_slab: u32,
}

impl SlabLayout {
    /// The published table S(K). The largest divisor of NB up to 64 pads nothing; where that divisor is small
    /// although the row is long (NB is nearly prime), the S in 32..=64 that pads least, the largest of those.
    ///
    /// `columns` is a positive multiple of 32 (checked where files are read).
    pub fn for_columns(columns: u32) -> Self {
        let blocks = columns / BLOCK_LEN;
        let divisor = (1..=SLABS_MAX.min(blocks)).rev().find(|s| blocks.is_multiple_of(*s)).unwrap_or(1);
        let slabs = if divisor >= 16 || blocks <= divisor {
            divisor
        } else {
            let padded = |s: u32| blocks.div_ceil(s) * s;
            // Two 16-bit scales of a superblock format lie in a word, which two rows must not share.
            let is_whole = |s: u32| padded(s).is_multiple_of(2) || !blocks.is_multiple_of(8);
            (SLABS_MAX.min(blocks) / 2..=SLABS_MAX.min(blocks))
                .filter(|s| *s > 0 && is_whole(*s))
                .rev()
                .min_by_key(|s| padded(*s))
                .unwrap_or(divisor)
        };
        Self { blocks, slabs, blocks_per_slab: blocks.div_ceil(slabs) }
    }

    /// Stored blocks of a row, padding included.
    pub fn padded_blocks(self) -> u32 {
        self.slabs * self.blocks_per_slab
    }

    /// Where block `block` is stored.
    pub fn position(self, block: u32) -> u32 {
        (block % self.blocks_per_slab) * self.slabs + block / self.blocks_per_slab
    }
}

/// How a weight format lies on the GPU after repacking; several file formats share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "named after the file formats they hold exactly")]
pub enum ResidentFormat {
    F32,
    /// Two halves to a word.
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    /// int8 codes and one scale; IQ4_NL's table values land here too.
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
}

/// Bytes per stored block of each plane of a format.
///
/// ```text
/// codes   16 B nibbles (low: elements 0..16, high: 16..32) | 32 B int8 | 64 B halves | 128 B floats
/// high    one or two more bits per code
/// scales  f32 d | f32 d, m | 16 bits of integer scales (K formats)
/// supers  f32 d or f32 d, dmin per 256 weights, by row and superblock (not in slab order)
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaneWidths {
    /// Code plane.
    pub codes_bytes: u64,
    /// High-bit plane, 0 when absent.
    pub high_bytes: u64,
    /// Scale plane, 0 when absent.
    pub scale_bytes: u64,
    /// Superblock plane, per 256 weights, 0 when absent.
    pub super_bytes: u64,
}

impl ResidentFormat {
    /// Where tensors of this type go.
    pub fn of(tensor_type: TensorType) -> Self {
        match tensor_type {
            TensorType::F32 => Self::F32,
            TensorType::F16 => Self::F16,
            TensorType::Bf16 => Self::Bf16,
            TensorType::Q4_0 => Self::Q4_0,
            TensorType::Q4_1 => Self::Q4_1,
            TensorType::Q5_0 => Self::Q5_0,
            TensorType::Q5_1 => Self::Q5_1,
            TensorType::Q8_0 | TensorType::Iq4Nl => Self::Q8_0,
            TensorType::Q2K => Self::Q2K,
            TensorType::Q3K => Self::Q3K,
            TensorType::Q4K => Self::Q4K,
            TensorType::Q5K => Self::Q5K,
            TensorType::Q6K => Self::Q6K,
        }
    }

    /// Bytes per block of each plane.
    pub fn widths(self) -> PlaneWidths {
        let planes = |codes_bytes, high_bytes, scale_bytes, super_bytes| PlaneWidths {
            codes_bytes,
            high_bytes,
            scale_bytes,
            super_bytes,
        };
        match self {
            Self::F32 => planes(128, 0, 0, 0),
            Self::F16 | Self::Bf16 => planes(64, 0, 0, 0),
            Self::Q4_0 => planes(16, 0, 4, 0),
            Self::Q4_1 => planes(16, 0, 8, 0),
            Self::Q5_0 => planes(16, 4, 4, 0),
            Self::Q5_1 => planes(16, 4, 8, 0),
            Self::Q8_0 => planes(32, 0, 4, 0),
            Self::Q2K => planes(16, 0, 2, 8),
            Self::Q3K => planes(16, 0, 2, 4),
            Self::Q4K => planes(16, 0, 2, 8),
            Self::Q5K => planes(16, 4, 2, 8),
            Self::Q6K => planes(16, 8, 2, 4),
        }
    }
}

/// Byte offsets of the planes of one page (a row range of one matrix) inside its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PagePlanes {
    /// Plane starts and lengths in bytes; a length of 0 means absent.
    pub codes: PlaneRange,
    /// High-bit plane.
    pub high: PlaneRange,
    /// Scale plane.
    pub scales: PlaneRange,
    /// Superblock plane.
    pub supers: PlaneRange,
    /// Bytes of the whole slot.
    pub total_bytes: u64,
}

/// A byte range inside a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaneRange {
    /// Multiple of [`PLANE_ALIGNMENT`].
    pub offset_bytes: u64,
    /// Multiple of 16; 0 when the format has no such plane.
    pub len_bytes: u64,
}

impl PagePlanes {
    /// Layout of `rows` rows of `columns` weights.
    pub fn new(format: ResidentFormat, rows: u64, columns: u32) -> Self {
        let layout = SlabLayout::for_columns(columns);
        let blocks = rows * u64::from(layout.padded_blocks());
        let supers = rows * u64::from(columns.div_ceil(256));
        let widths = format.widths();
        let mut end = 0u64;
        let mut place = |bytes: u64| {
            let range = PlaneRange {
                offset_bytes: end.next_multiple_of(PLANE_ALIGNMENT),
                len_bytes: bytes.next_multiple_of(16),
            };
            if range.len_bytes > 0 {
                end = range.offset_bytes + range.len_bytes;
            }
            range
        };
        let (codes, high) = (place(blocks * widths.codes_bytes), place(blocks * widths.high_bytes));
        let (scales, supers) = (place(blocks * widths.scale_bytes), place(supers * widths.super_bytes));
        Self { codes, high, scales, supers, total_bytes: end.next_multiple_of(PLANE_ALIGNMENT) }
    }
}
