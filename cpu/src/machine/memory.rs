//! What a model keeps in memory: weights, constants, position tables, the cache.

use fanlight_compute::cache::{CacheFormat, CacheShape, copy_row};
use fanlight_compute::heads::Shape;
use fanlight_compute::weights::{self, Format, repack_rows};
use fanlight_messages::TensorType;
use fanlight_messages::layout::SlabLayout;
use fanlight_messages::plan::{GpuPlan, KvFormat, TREE_ROWS};
use fanlight_messages::program::{MatrixSpec, RopePairing, RopeSpec};

use super::Machine;

/// A weight matrix in groups of sixteen rows.
#[derive(Debug)]
pub(super) struct Matrix {
    tensor_type: TensorType,
    pub(super) rows: usize,
    columns: usize,
    slab_blocks: usize,
    bytes: Vec<u8>,
}

impl Matrix {
    pub(super) fn new(spec: &MatrixSpec) -> Self {
        let bytes = Format::of(spec.tensor_type).matrix_bytes(spec.rows, spec.columns) as usize;
        Self {
            tensor_type: spec.tensor_type,
            rows: spec.rows as usize,
            columns: spec.columns as usize,
            slab_blocks: SlabLayout::for_columns(spec.columns).blocks_per_slab as usize,
            bytes: vec![0; bytes],
        }
    }

    /// As kernels read it.
    pub(super) fn view(&self) -> weights::Matrix<'_> {
        weights::Matrix {
            format: Format::of(self.tensor_type),
            columns: self.columns,
            slab_blocks: self.slab_blocks,
            bytes: &self.bytes,
        }
    }
}

/// A position table.
#[derive(Debug)]
pub(super) struct Rope {
    pub(super) is_adjacent: bool,
    pairs: usize,
    turns: Vec<[f32; 2]>,
}

impl Rope {
    pub(super) fn new(spec: &RopeSpec, positions: u32) -> Self {
        let is_adjacent = spec.pairing == RopePairing::Adjacent;
        Self { is_adjacent, pairs: spec.inverse_frequencies.len(), turns: spec.turns(0, positions) }
    }

    /// The rotations of a position.
    pub(super) fn at(&self, position: usize) -> &[[f32; 2]] {
        &self.turns[position * self.pairs..][..self.pairs]
    }
}

/// Keys and values of a layer, head after head.
#[derive(Debug)]
pub(super) struct LayerCache {
    pub(super) shape: CacheShape,
    pub(super) bytes: Vec<u8>,
    /// Row of node 0 of a draft tree.
    pub(super) nodes_at: usize,
}

impl LayerCache {
    pub(super) fn new(shape: Shape, plan: &GpuPlan) -> Self {
        let format = match plan.request.kv_format {
            KvFormat::Q8 => CacheFormat::Q8,
            KvFormat::F16 => CacheFormat::F16,
            KvFormat::F32 => CacheFormat::F32,
        };
        let rows = (plan.cache_rows + TREE_ROWS) as usize;
        let cache = CacheShape { format, head_len: shape.head_len, rows };
        let bytes = vec![0; cache.bytes() * shape.kv_heads];
        Self { shape: cache, bytes, nodes_at: plan.cache_rows as usize }
    }

    /// Copies accepted nodes to their positions: `(node, position)`.
    pub(super) fn keep(&mut self, accepted: &[(usize, usize)]) {
        for head in self.bytes.chunks_exact_mut(self.shape.bytes()) {
            for (node, position) in accepted {
                copy_row(self.shape, head, self.nodes_at + node, *position);
            }
        }
    }
}

impl Machine {
    /// Takes whole rows in file format.
    pub(crate) fn take_rows(&mut self, matrix: usize, first_row: u64, bytes: &[u8]) {
        let Matrix { tensor_type, columns, bytes: to, .. } = &mut self.matrices[matrix];
        repack_rows(*tensor_type, *columns, first_row as usize, bytes, to);
    }

    /// Takes elements of a constant vector.
    pub(crate) fn take_vector(&mut self, vector: usize, offset: usize, values: &[f32]) {
        self.vectors[vector][offset..][..values.len()].copy_from_slice(values);
    }
}
