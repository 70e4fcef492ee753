//! The plan of a processor: the same request and limits, with buffers of the sizes that its kernels use.

use fanlight_compute::attend::Scratch;
use fanlight_compute::cache::{CacheFormat, CacheShape};
use fanlight_compute::quantise::Block;
use fanlight_compute::tiles::{LANES, panels};
use fanlight_messages::draft::MEMORY_TOKENS;
use fanlight_messages::plan::{
    ActivationPlane, Budget, BufferOwner, BufferPlan, GpuPlan, KvFormat, PageRange, PlanRequest, TREE_ROWS,
};
use fanlight_messages::program::{ActivationId, AttentionShape, MatrixId, Program, RopeId, ValueId};
use fanlight_messages::row_groups::{Format, TILE_ROWS, batch_rows, value_rows};

use crate::{PlanError, plan_resident};

/// Plans every buffer for running `program` on a processor, whose work `members` threads share. All weights
/// stay in memory.
///
/// # Errors
/// As [`plan_resident`]; [`PlanError::Budget`] when the budget does not hold all of it.
pub fn plan_processor(
    program: &Program,
    request: PlanRequest,
    members: u32,
    budget: Option<Budget>,
) -> Result<GpuPlan, PlanError> {
    // What a request may ask for is the same everywhere; the formats of a GPU's cache stand in for q8.
    let checked = plan_resident(program, PlanRequest { kv_format: KvFormat::F16, ..request })?;
    let plan = with_buffers(program, checked, request.kv_format, members as usize);
    let wanted_bytes = plan.total_bytes();
    match budget {
        Some(Budget { bytes: budget_bytes, .. }) if wanted_bytes > budget_bytes => {
            Err(PlanError::Budget { wanted_bytes, budget_bytes })
        }
        _ => Ok(plan),
    }
}

/// The cache format of the kernels.
fn cache_format(format: KvFormat) -> CacheFormat {
    match format {
        KvFormat::Q8 => CacheFormat::Q8,
        KvFormat::F16 => CacheFormat::F16,
        KvFormat::F32 => CacheFormat::F32,
    }
}

fn with_buffers(program: &Program, checked: GpuPlan, kv_format: KvFormat, members: usize) -> GpuPlan {
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
        let rows = value_rows(program, &plan, ValueId(index));
        buffers.push((BufferOwner::Value(ValueId(index)), panels(value.len as usize) * LANES * 4 * rows));
    }
    for (index, activation) in (0u32..).zip(&program.activations) {
        let (id, rows) = (ActivationId(index), batch_rows(&plan));
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
    let rows = batch_rows(plan);
    let most = |f: fn(&AttentionShape) -> u32| program.layers.iter().map(f).max().unwrap_or(0) as usize;
    let (units, queries) = (most(|s| s.qkv_len()), most(|s| s.query_len()));
    let (group, head_len) = (most(|s| s.query_heads / s.kv_heads), most(|s| s.head_len));
    (units + queries) * 4 * rows + members * Scratch::bytes(group * TILE_ROWS, head_len) as usize
}
