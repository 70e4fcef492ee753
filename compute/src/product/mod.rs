//! Products of weights with activations: every row keeps to its lane, so a sum is the same in any tile.

mod blocks;
mod floats;
mod supers;

pub(crate) use blocks::signed_products;

use crate::quantise::Block;
use crate::simd::{Kernel, Simd};
use crate::tiles::Panel;
use crate::weights::{BlockFormat, Float, Format, Matrix, SuperFormat};

/// Rows of a tile, as a product reads them.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// `[block][room]`.
    pub blocks: &'a [Block],
    /// `[element][room]`, where a float matrix reads it; else empty.
    pub values: &'a [f32],
    /// Rows that the tile has room for.
    pub room: usize,
    /// Rows that are live; what the others hold is not read.
    pub live: usize,
}

/// Some groups of a matrix times the rows of a tile: `out` is `[group][room]`.
#[derive(Debug)]
pub struct Multiply<'a> {
    /// The weights.
    pub matrix: Matrix<'a>,
    /// First group.
    pub first_group: usize,
    /// The rows.
    pub input: Input<'a>,
    /// A panel for each group and row.
    pub out: &'a mut [Panel],
}

impl Kernel for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { matrix, first_group, input, out } = self;
        for (index, out) in out.chunks_exact_mut(input.room).enumerate() {
            let group = matrix.group(first_group + index);
            // Wide tiles first, then what is left of the rows.
            let mut row = 0;
            while row < input.live {
                let left = input.live - row;
                row += match left {
                    5.. if S::TILE >= 8 => tile::<S, 8>(s, &matrix, group, input, row, out),
                    3.. => tile::<S, 4>(s, &matrix, group, input, row, out),
                    2 => tile::<S, 2>(s, &matrix, group, input, row, out),
                    _ => tile::<S, 1>(s, &matrix, group, input, row, out),
                };
            }
        }
    }
}

/// Rows `first..first + T`, of which those beyond the live ones are computed and count for nothing. The room
/// is a power of two, so they exist. Returns T.
#[inline(always)]
fn tile<S: Simd, const T: usize>(
    s: S,
    matrix: &Matrix<'_>,
    group: &[u8],
    input: Input<'_>,
    first: usize,
    out: &mut [Panel],
) -> usize {
    let slab = matrix.slab_blocks;
    let out = &mut out[first..];
    match matrix.format {
        Format::Block(BlockFormat::Nibble) => {
            blocks::nibbles::<S, T, false>(s, group, slab, input, first, out)
        }
        Format::Block(BlockFormat::NibbleMin) => {
            blocks::nibbles::<S, T, true>(s, group, slab, input, first, out)
        }
        Format::Block(BlockFormat::Byte) => blocks::bytes::<S, T, false>(s, group, slab, input, first, out),
        Format::Block(BlockFormat::ByteMin) => blocks::bytes::<S, T, true>(s, group, slab, input, first, out),
        Format::Super(SuperFormat::Q2K) => supers::q2k::<S, T>(s, group, slab, input, first, out),
        Format::Super(SuperFormat::Q3K) => supers::q3k::<S, T>(s, group, slab, input, first, out),
        Format::Super(SuperFormat::Q4K) => supers::q4k::<S, T>(s, group, slab, input, first, out),
        Format::Super(SuperFormat::Q5K) => supers::q5k::<S, T>(s, group, slab, input, first, out),
        Format::Super(SuperFormat::Q6K) => supers::q6k::<S, T>(s, group, slab, input, first, out),
        Format::Float(Float::F32) => floats::f32s::<S, T>(s, group, slab, input, first, out),
        Format::Float(Float::F16) => floats::halves::<S, T>(s, group, slab, input, first, out),
        Format::Float(Float::Bf16) => floats::brains::<S, T>(s, group, slab, input, first, out),
    }
    T
}

/// The sums of T rows: inside a slab from +0 in order, then slab after slab.
#[derive(Clone, Copy)]
pub(crate) struct Sums<S: Simd, const T: usize> {
    total: [S::F; T],
    slab: [S::F; T],
    left: usize,
    len: usize,
}

impl<S: Simd, const T: usize> Sums<S, T> {
    /// Zero, with slabs of `len` terms.
    #[inline(always)]
    pub(crate) fn new(s: S, len: usize) -> Self {
        Self { total: [s.splat(0.0); T], slab: [s.splat(0.0); T], left: len, len }
    }

    /// Adds a term to row `row`.
    #[inline(always)]
    pub(crate) fn add(&mut self, s: S, row: usize, term: S::F) {
        self.slab[row] = s.add(self.slab[row], term);
    }

    /// Every row has had a term.
    #[inline(always)]
    pub(crate) fn step(&mut self, s: S) {
        self.left -= 1;
        if self.left == 0 {
            for (total, slab) in self.total.iter_mut().zip(&mut self.slab) {
                *total = s.add(*total, *slab);
                *slab = s.splat(0.0);
            }
            self.left = self.len;
        }
    }

    /// Writes `lanes..` of the panels.
    #[inline(always)]
    pub(crate) fn store(mut self, s: S, lane: usize, out: &mut [Panel]) {
        if self.left != self.len {
            self.left = 1;
            self.step(s);
        }
        for (total, out) in self.total.iter().zip(out) {
            s.store(&mut out[lane..lane + S::LANES], *total);
        }
    }
}

/// The activations of T rows of a block.
#[inline(always)]
pub(crate) fn rows_of<const T: usize>(input: Input<'_>, block: usize, first: usize) -> &[Block; T] {
    let at = block * input.room + first;
    input.blocks[at..at + T].first_chunk().expect("the slice has T rows")
}
