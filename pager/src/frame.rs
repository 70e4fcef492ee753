//! What a model takes on the device beside its weights, and the plan of both together.

use fanlight_messages::control::CONTROL_BYTES;
use fanlight_messages::draft::{ANCESTOR_BYTES, DRAFT_BYTES, MATCHES_BYTES, MEMORY_TOKENS};
use fanlight_messages::layout::SlabLayout;
use fanlight_messages::limits::{
    CHECK_BYTES, CHECK_TOKENS, CHOICE_RECORD_BYTES, CHOICE_SLICES, CONTEXT_LEN_MAX, FAULT_BYTES, HEADS_MAX,
    LANDING_BYTES, PARTIAL_BYTES_TARGET, READBACK_SLOTS, UPLOAD_BYTES_MAX,
};
use fanlight_messages::plan::{
    ActivationPlane, BATCH_TOKENS_MAX, BINDING_BYTES_MAX, BUCKET_MAX, BufferOwner, BufferPlan, CHUNK_LEN,
    GpuPlan, PageRange, PlanRequest, StreamPlan, TREE_ROWS,
};
use fanlight_messages::program::{ActivationId, MatrixSpec, Op, Program, RopeId, ValueId};
use fanlight_messages::records::{Cuts, record_bytes};
use fanlight_messages::sampling::{SAMPLING_BYTES, SELECTION_ROW_WORDS};

use crate::PlanError;
use crate::pages::repacked_bytes;

/// f32 bytes.
const FLOAT_BYTES: u64 = 4;
/// Constant vectors start at multiples of this many elements: 16 bytes, so that kernels may read vec4s.
const VECTOR_ALIGNMENT: u32 = 4;
/// Everything of a plan but the weights.
pub(crate) struct Frame {
    pub request: PlanRequest,
    pub cache_rows: u32,
    pub batch_rows: u32,
    pub partial_rows: u32,
    pub kv_group_heads: Vec<u32>,
    pub vector_offsets: Vec<u32>,
    buffers: Vec<BufferPlan>,
}

/// Plans the buffers that running `program` takes beside its weights.
///
/// The request comes back with `batch_tokens` lowered where a wider batch would not fit one binding, and
/// `binding_bytes_max` capped at [`BINDING_BYTES_MAX`].
pub(crate) fn plan_frame(program: &Program, request: PlanRequest) -> Result<Frame, PlanError> {
    let limit = request.binding_bytes_max.min(BINDING_BYTES_MAX);
    let mut request = PlanRequest { binding_bytes_max: limit, ..request };
    check_request(program, &request)?;
    let cache_rows = request.context_len.next_multiple_of(CHUNK_LEN);
    let logits = head_output(program)?;
    request.batch_tokens = fitting_batch(program, &request, logits)?;
    let batch_rows = batch_rows(request.batch_tokens);
    if request.logits_rows > batch_rows {
        return Err(PlanError::LogitsRows { wanted: request.logits_rows, max: batch_rows });
    }

    let mut buffers = Vec::new();
    let (vector_offsets, vectors_bytes) = place_vectors(program)?;
    buffers.push(BufferPlan { owner: BufferOwner::Vectors, bytes: vectors_bytes });
    for (index, rope) in program.ropes.iter().enumerate() {
        let bytes = u64::from(cache_rows) * rope.inverse_frequencies.len() as u64 * 2 * FLOAT_BYTES;
        buffers.push(BufferPlan { owner: BufferOwner::Rope(RopeId(index as u32)), bytes });
    }
    let kv_group_heads = plan_cache(program, &request, cache_rows, &mut buffers)?;
    buffers.extend(batch_buffers(program, &request, batch_rows, logits));
    let (partial_rows, partials_bytes) = plan_partials(program, cache_rows, batch_rows, limit)?;
    buffers.push(BufferPlan { owner: BufferOwner::AttentionPartials, bytes: partials_bytes });
    buffers.extend(draft_buffers(cache_rows));
    buffers.extend(fixed_buffers(&request, batch_rows));
    Ok(Frame { request, cache_rows, batch_rows, partial_rows, kv_group_heads, vector_offsets, buffers })
}

impl Frame {
    /// The plan with these weights.
    pub(crate) fn with_weights(self, program: &Program, weights: Weights) -> Result<GpuPlan, PlanError> {
        let Weights { pages, stream } = weights;
        let Self { request, cache_rows, batch_rows, partial_rows, kv_group_heads, vector_offsets, .. } = self;
        let mut buffers: Vec<BufferPlan> = Vec::new();
        for page in pages.iter().filter(|page| page.slot.is_none()) {
            let bytes = repacked_bytes(&program.matrices[page.matrix.index()], page.rows);
            buffers.push(BufferPlan { owner: page.owner(), bytes });
        }
        buffers.extend(self.buffers);
        if let Some(stream) = &stream {
            buffers.extend(stream_buffers(program, stream, batch_rows));
        }
        // No adapter binds less than a landing buffer; a pretended one gets smaller uploads.
        let landing_bytes = landing_bytes(program, &pages).min(request.binding_bytes_max & !3);
        // One upload is copied while the device works on the one before.
        let upload_bytes = if stream.is_some() { 2 * landing_bytes } else { landing_bytes };
        let staging_bytes = upload_bytes.max(check_bytes(program));
        buffers.push(BufferPlan { owner: BufferOwner::Landing, bytes: landing_bytes });
        buffers.push(BufferPlan { owner: BufferOwner::Staging, bytes: staging_bytes });
        let cuts = Cuts { pages: &pages, kv_group_heads: &kv_group_heads, partial_rows };
        let bytes = record_bytes(program, cuts);
        buffers.push(BufferPlan { owner: BufferOwner::Params, bytes });
        let is_bound = |buffer: &&BufferPlan| buffer.owner != BufferOwner::Staging;
        let limit = request.binding_bytes_max;
        if let Some(buffer) = buffers.iter().filter(is_bound).find(|buffer| buffer.bytes > limit) {
            return Err(too_large(format!("{:?}", buffer.owner), buffer.bytes, limit));
        }
        buffers.retain(|buffer| buffer.bytes > 0);
        Ok(GpuPlan {
            request,
            cache_rows,
            batch_rows,
            partial_rows,
            kv_group_heads,
            pages,
            buffers,
            vector_offsets,
            stream,
        })
    }
}

/// Bytes of the largest upload, and a word that the repack kernels read beyond it.
fn landing_bytes(program: &Program, pages: &[PageRange]) -> u64 {
    let file_bytes = |page: &PageRange| {
        let spec = &program.matrices[page.matrix.index()];
        let row_bytes = spec.tensor_type.row_bytes(u64::from(spec.columns)).unwrap_or(0);
        page.rows.saturating_mul(row_bytes)
    };
    let largest = pages.iter().map(file_bytes).max().unwrap_or(0);
    (largest.min(UPLOAD_BYTES_MAX) + LANDING_BYTES - UPLOAD_BYTES_MAX).next_multiple_of(4)
}

/// What comparing pipelines takes: each input lies there and once more in the queue.
fn check_bytes(program: &Program) -> u64 {
    let token_bytes = |matrix: &MatrixSpec| {
        let block_bytes = if matrix.tensor_type.is_float() { 128 } else { 32 + 8 };
        u64::from(SlabLayout::for_columns(matrix.columns).padded_blocks()) * block_bytes
    };
    let widest = program.matrices.iter().map(token_bytes).max().unwrap_or(0);
    CHECK_BYTES + 2 * u64::from(CHECK_TOKENS) * widest
}

/// Where the weights of a plan lie.
pub(crate) struct Weights {
    pub pages: Vec<PageRange>,
    pub stream: Option<StreamPlan>,
}

/// The ring, and the rows of the embedding table that are read one by one.
fn stream_buffers(program: &Program, stream: &StreamPlan, batch_rows: u32) -> Vec<BufferPlan> {
    let slot = |slot| BufferPlan { owner: BufferOwner::Slot(slot), bytes: stream.slot_bytes };
    let mut buffers: Vec<BufferPlan> = (0..stream.slots).map(slot).collect();
    if let Some(table) = stream.gathers {
        let bytes = repacked_bytes(&program.matrices[table.index()], u64::from(batch_rows));
        buffers.push(BufferPlan { owner: BufferOwner::Gathered, bytes });
        let bytes = u64::from(batch_rows) * 4;
        buffers.push(BufferPlan { owner: BufferOwner::GatheredIndex, bytes });
    }
    buffers
}

fn too_large(what: String, wanted_bytes: u64, binding_bytes_max: u64) -> PlanError {
    let advice = "ask for a shorter context, or use an adapter with larger storage bindings";
    PlanError::Binding { what, wanted_bytes, binding_bytes_max, advice }
}

fn check_request(program: &Program, request: &PlanRequest) -> Result<(), PlanError> {
    let max = CONTEXT_LEN_MAX.min(program.context_len_max);
    if request.context_len == 0 || request.context_len > max {
        return Err(PlanError::Context { wanted: request.context_len, max });
    }
    if request.batch_tokens == 0 || request.batch_tokens > BATCH_TOKENS_MAX {
        return Err(PlanError::Batch { wanted: request.batch_tokens, max: BATCH_TOKENS_MAX });
    }
    if request.logits_rows == 0 {
        return Err(PlanError::LogitsRows { wanted: 0, max: BATCH_TOKENS_MAX });
    }
    if program.layers.is_empty() {
        return Err(PlanError::Program("no layer".into()));
    }
    for (index, layer) in program.layers.iter().enumerate() {
        let counts = [layer.query_heads, layer.kv_heads, layer.head_len];
        if counts.iter().any(|count| !(1..=HEADS_MAX).contains(count)) {
            return Err(PlanError::Program(format!(
                "layer {index} has heads outside 1 to {HEADS_MAX}: {layer:?}"
            )));
        }
    }
    Ok(())
}

/// The logits row: what the head writes.
fn head_output(program: &Program) -> Result<ValueId, PlanError> {
    match program.head {
        Op::Multiply { output, .. } if output.index() < program.values.len() => Ok(output),
        _ => Err(PlanError::Program("the head is not a multiply into a declared value".into())),
    }
}

/// Rows of value and activation buffers for a batch.
fn batch_rows(batch_tokens: u32) -> u32 {
    batch_tokens.max(BUCKET_MAX).next_multiple_of(BUCKET_MAX)
}

/// Bytes of one row of each plane of an activation.
fn plane_row_bytes(program: &Program, id: ActivationId) -> [(ActivationPlane, u64); 3] {
    let spec = &program.activations[id.index()];
    let blocks = u64::from(SlabLayout::for_columns(spec.columns).padded_blocks());
    let values = if spec.keeps_values { blocks * 128 } else { 0 };
    [
        (ActivationPlane::Codes, blocks * 32),
        (ActivationPlane::Meta, blocks * 8),
        (ActivationPlane::Values, values),
    ]
}

/// Halves the batch until its widest row fits a binding.
fn fitting_batch(program: &Program, request: &PlanRequest, logits: ValueId) -> Result<u32, PlanError> {
    let values = program.values.iter().enumerate().filter(|(index, _)| *index != logits.index());
    let widest_value = values.map(|(_, spec)| u64::from(spec.len) * FLOAT_BYTES).max().unwrap_or(0);
    let activations = (0..program.activations.len()).map(|index| ActivationId(index as u32));
    let planes = activations.flat_map(|id| plane_row_bytes(program, id)).map(|(_, bytes)| bytes);
    let widest = widest_value.max(planes.max().unwrap_or(0));
    let mut batch_tokens = request.batch_tokens;
    while u64::from(batch_rows(batch_tokens)) * widest > request.binding_bytes_max {
        if batch_tokens <= BUCKET_MAX {
            let wanted_bytes = u64::from(BUCKET_MAX) * widest;
            return Err(too_large("the smallest batch".into(), wanted_bytes, request.binding_bytes_max));
        }
        batch_tokens = (batch_tokens / 2).max(BUCKET_MAX);
    }
    Ok(batch_tokens)
}

/// Element offset of each vector and the bytes of all.
fn place_vectors(program: &Program) -> Result<(Vec<u32>, u64), PlanError> {
    let overflow = || PlanError::Program("the constant vectors hold more than 2^32 elements".into());
    let mut offsets = Vec::with_capacity(program.vectors.len());
    let mut end = 0u32;
    for vector in &program.vectors {
        offsets.push(end);
        let len = vector.parts.iter().try_fold(0u32, |sum, part| sum.checked_add(part.len));
        let len = len.and_then(|len| len.checked_next_multiple_of(VECTOR_ALIGNMENT)).ok_or_else(overflow)?;
        end = end.checked_add(len).ok_or_else(overflow)?;
    }
    Ok((offsets, u64::from(end) * FLOAT_BYTES))
}

/// Keys and values by layer and head group; returns the heads per group of each layer.
fn plan_cache(
    program: &Program,
    request: &PlanRequest,
    cache_rows: u32,
    buffers: &mut Vec<BufferPlan>,
) -> Result<Vec<u32>, PlanError> {
    let limit = request.binding_bytes_max;
    let mut group_heads_by_layer = Vec::with_capacity(program.layers.len());
    for (layer, shape) in (0u32..).zip(&program.layers) {
        let rows = u64::from(cache_rows + TREE_ROWS);
        let head_bytes = rows * u64::from(shape.head_len) * request.kv_format.element_bytes();
        let fits =
            |heads: &u32| shape.kv_heads.is_multiple_of(*heads) && u64::from(*heads) * head_bytes <= limit;
        // The count that fits bounds the search, so that a hostile head count costs nothing.
        let heads_max = u64::from(shape.kv_heads).min(limit / head_bytes) as u32;
        let Some(group_heads) = (1..=heads_max).rev().find(fits) else {
            return Err(too_large(format!("one key/value head of layer {layer}"), head_bytes, limit));
        };
        for group in 0..shape.kv_heads / group_heads {
            let bytes = u64::from(group_heads) * head_bytes;
            buffers.push(BufferPlan { owner: BufferOwner::Keys { layer, group }, bytes });
            buffers.push(BufferPlan { owner: BufferOwner::Values { layer, group }, bytes });
        }
        group_heads_by_layer.push(group_heads);
    }
    Ok(group_heads_by_layer)
}

/// Values and activation planes.
fn batch_buffers(
    program: &Program,
    request: &PlanRequest,
    batch_rows: u32,
    logits: ValueId,
) -> Vec<BufferPlan> {
    let mut buffers = Vec::new();
    for (id, spec) in (0u32..).map(ValueId).zip(&program.values) {
        let rows = if id == logits { request.logits_rows } else { batch_rows };
        let bytes = u64::from(rows) * u64::from(spec.len) * FLOAT_BYTES;
        buffers.push(BufferPlan { owner: BufferOwner::Value(id), bytes });
    }
    for index in 0..program.activations.len() {
        let id = ActivationId(index as u32);
        for (plane, row_bytes) in plane_row_bytes(program, id) {
            let bytes = u64::from(batch_rows) * row_bytes;
            buffers.push(BufferPlan { owner: BufferOwner::Activation(id, plane), bytes });
        }
    }
    buffers
}

/// Query rows per split-attention dispatch and the bytes of their partials. A prompt batch folds its chunks
/// in registers and leaves one partial per row, in the same buffer.
fn plan_partials(
    program: &Program,
    cache_rows: u32,
    batch_rows: u32,
    limit: u64,
) -> Result<(u32, u64), PlanError> {
    let chunks = u64::from(cache_rows / CHUNK_LEN);
    // Per head and chunk: the running maximum, the sum and the output vector.
    let floats = program.layers.iter().map(|l| u64::from(l.query_heads) * (u64::from(l.head_len) + 2));
    let row_bytes = floats
        .max()
        .and_then(|floats| floats.checked_mul(chunks * FLOAT_BYTES))
        .ok_or_else(|| PlanError::Program("attention partials overflow".into()))?;
    if row_bytes > limit {
        return Err(too_large("one row of attention partials".into(), row_bytes, limit));
    }
    let target = PARTIAL_BYTES_TARGET.min(limit);
    let mut rows = BUCKET_MAX;
    while rows > 1 && u64::from(rows) * row_bytes > target {
        rows /= 2;
    }
    let batch_bytes = row_bytes / chunks * u64::from(batch_rows);
    if batch_bytes > limit {
        return Err(too_large("attention partials of a batch".into(), batch_bytes, limit));
    }
    Ok((rows, (u64::from(rows) * row_bytes).max(batch_bytes)))
}

/// What drafts are made from and what they are.
fn draft_buffers(cache_rows: u32) -> [BufferPlan; 4] {
    let history_bytes = u64::from(MEMORY_TOKENS + cache_rows) * 4;
    [
        BufferPlan { owner: BufferOwner::History, bytes: history_bytes },
        BufferPlan { owner: BufferOwner::Matches, bytes: MATCHES_BYTES },
        BufferPlan { owner: BufferOwner::Draft, bytes: DRAFT_BYTES },
        BufferPlan { owner: BufferOwner::Ancestors, bytes: ANCESTOR_BYTES },
    ]
}

/// Buffers whose size does not follow the model's shape.
fn fixed_buffers(request: &PlanRequest, batch_rows: u32) -> Vec<BufferPlan> {
    let choice_bytes = u64::from(request.logits_rows) * CHOICE_SLICES * CHOICE_RECORD_BYTES;
    let selection_bytes = u64::from(request.logits_rows) * u64::from(SELECTION_ROW_WORDS) * 4;
    let mut buffers = vec![
        BufferPlan { owner: BufferOwner::Tokens, bytes: u64::from(batch_rows) * 4 },
        BufferPlan { owner: BufferOwner::Control, bytes: CONTROL_BYTES },
        BufferPlan { owner: BufferOwner::ChoicePartials, bytes: choice_bytes },
        BufferPlan { owner: BufferOwner::Sampling, bytes: SAMPLING_BYTES },
        BufferPlan { owner: BufferOwner::Selection, bytes: selection_bytes },
        BufferPlan { owner: BufferOwner::Faults, bytes: FAULT_BYTES },
    ];
    let readbacks = (0..READBACK_SLOTS).map(BufferOwner::Readback);
    buffers.extend(readbacks.map(|owner| BufferPlan { owner, bytes: CONTROL_BYTES }));
    buffers
}
