//! What a model takes in memory, to the byte, before anything exists.

use fanlight_compute::attend::Scratch;
use fanlight_compute::cache::{CacheFormat, CacheShape};
use fanlight_compute::quantise::Block;
use fanlight_compute::tiles::{LANES, TILE_ROWS, panels};
use fanlight_compute::weights::Format;
use fanlight_messages::draft::MEMORY_TOKENS;
use fanlight_messages::plan::{
    ActivationPlane, BufferOwner, BufferPlan, GpuPlan, KvFormat, PageRange, TREE_ROWS,
};
use fanlight_messages::program::{ActivationId, MatrixId, Op, Program, RopeId, ValueId};

/// The cache format of the kernels.
pub(crate) fn cache_format(format: KvFormat) -> CacheFormat {
    match format {
        KvFormat::Q8 => CacheFormat::Q8,
        KvFormat::F16 => CacheFormat::F16,
        KvFormat::F32 => CacheFormat::F32,
    }
}

/// Rows that every buffer of a batch has room for.
pub(crate) fn rows_of(program: &Program, plan: &GpuPlan, value: usize) -> usize {
    let is_logits = matches!(program.head, Op::Multiply { output, .. } if output.index() == value);
    let rows = if is_logits { plan.request.logits_rows } else { plan.batch_rows };
    (rows as usize).next_multiple_of(TILE_ROWS)
}

/// The plan of a GPU, checked against the program, as that of this back end: the same request with buffers of
/// other sizes. `members` share the work.
pub fn plan(program: &Program, checked: GpuPlan, kv_format: KvFormat, members: usize) -> GpuPlan {
    let mut plan = checked;
    plan.request.kv_format = kv_format;
    plan.stream = None;
    plan.partial_rows = 1;
    plan.kv_group_heads = program.layers.iter().map(|layer| layer.kv_heads).collect();
    let matrices = (0u32..).zip(&program.matrices);
    plan.pages = matrices
        .map(|(index, spec)| PageRange {
            matrix: MatrixId(index),
            page: 0,
            first_row: 0,
            rows: spec.rows,
            slot: None,
        })
        .collect();
    let mut buffers: Vec<(BufferOwner, usize)> = Vec::new();
    for page in &plan.pages {
        let spec = &program.matrices[page.matrix.index()];
        let bytes = Format::of(spec.tensor_type).matrix_bytes(spec.rows, spec.columns);
        buffers.push((page.owner(), bytes as usize));
    }
    let vectors: usize = program.vectors.iter().map(|vector| vector.len() as usize * 4).sum();
    buffers.push((BufferOwner::Vectors, vectors));
    for (index, rope) in (0u32..).zip(&program.ropes) {
        let bytes = plan.cache_rows as usize * rope.inverse_frequencies.len() * 8;
        buffers.push((BufferOwner::Rope(RopeId(index)), bytes));
    }
    for (layer, shape) in (0u32..).zip(&program.layers) {
        let cache = CacheShape {
            format: cache_format(kv_format),
            head_len: shape.head_len as usize,
            rows: (plan.cache_rows + TREE_ROWS) as usize,
        };
        let heads = shape.kv_heads as usize;
        buffers.push((BufferOwner::Keys { layer, group: 0 }, cache.key_bytes() * heads));
        buffers.push((BufferOwner::Values { layer, group: 0 }, cache.value_bytes() * heads));
    }
    for (index, value) in (0u32..).zip(&program.values) {
        let rows = rows_of(program, &plan, index as usize);
        buffers.push((BufferOwner::Value(ValueId(index)), panels(value.len as usize) * LANES * 4 * rows));
    }
    for (index, activation) in (0u32..).zip(&program.activations) {
        let (id, rows) = (ActivationId(index), rows_of(program, &plan, usize::MAX));
        let blocks = activation.columns as usize / 32 * rows;
        buffers.push((BufferOwner::Activation(id, ActivationPlane::Codes), blocks * size_of::<Block>()));
        if activation.keeps_values {
            buffers.push((BufferOwner::Activation(id, ActivationPlane::Values), blocks * 128));
        }
    }
    buffers.push((BufferOwner::AttentionPartials, attention_bytes(program, &plan, members)));
    buffers.push((BufferOwner::History, 4 * (MEMORY_TOKENS + plan.cache_rows) as usize));
    plan.buffers = buffers
        .into_iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(owner, bytes)| BufferPlan { owner, bytes: bytes as u64 })
        .collect();
    plan
}

/// Heads and attention output of a batch, and what each member computes with.
fn attention_bytes(program: &Program, plan: &GpuPlan, members: usize) -> usize {
    let rows = rows_of(program, plan, usize::MAX);
    let most = |f: fn(&fanlight_messages::program::AttentionShape) -> u32| {
        program.layers.iter().map(f).max().unwrap_or(0) as usize
    };
    let (units, queries) = (most(|s| s.qkv_len()), most(|s| s.query_len()));
    let (group, head_len) = (most(|s| s.query_heads / s.kv_heads), most(|s| s.head_len));
    (units + queries) * 4 * rows + members * Scratch::bytes(group * TILE_ROWS, head_len) as usize
}
