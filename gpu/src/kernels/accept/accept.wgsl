// Commits the step: walks the draft tree along the choices, advances the cache, folds the hash, appends the
// chosen tokens to the ring and the history, raises the end flag. One workgroup, eight threads per node.
// messages/src/control.rs and messages/src/draft.rs draw the buffers.
struct Params {
  form: u32,   // 0 the last batch of a prompt, 1 a plain step, 2 a tree step
};
@group(0) @binding(0) var<storage, read> partials: array<vec4<u32>>;   // [node][slice] value, id, hash, 0
@group(0) @binding(1) var<storage, read_write> tokens: array<u32>;
@group(0) @binding(2) var<storage, read_write> draft: array<u32>;
@group(0) @binding(3) var<storage, read_write> history: array<u32>;
@group(0) @binding(4) var<storage, read> ancestors: array<u32>;
@group(0) @binding(6) var<storage, read_write> faults: atomic<u32>;
@group(0) @binding(7) var<storage, read_write> control: array<u32>;
@group(0) @binding(8) var<uniform> params: Params;

const END_IDS = {{ end_ids_word }}u;
const RING = {{ ring_word }}u;
const RING_LEN = {{ ring_len }}u;
const HASHES = {{ hashes_word }}u;
const RECORDS = {{ records_word }}u;
const RECORD_COUNT = {{ records }}u;
const PROMPT = 0u;
const TREE = 2u;

var<workgroup> has_ended: u32;
var<workgroup> live_nodes: u32;
var<workgroup> part_value: array<f32, 256>;
var<workgroup> part_id: array<u32, 256>;
var<workgroup> part_hash: array<u32, 256>;
var<workgroup> choice: array<u32, 32>;
var<workgroup> row_hash: array<u32, 32>;
var<workgroup> ends: array<atomic<u32>, 32>;
var<workgroup> is_chosen: array<u32, 32>;
var<workgroup> path: array<u32, 9>;       // accepted node at each depth, 0 beyond the last

fn is_better(value: f32, id: u32, than: f32, than_id: u32) -> bool {
  return id != 0xffffffffu && (than_id == 0xffffffffu || value > than || (value == than && id < than_id));
}

// The largest logit of every node's row, ties to the lowest id, and the row's hash.
fn choose(node: u32, part: u32, t: u32) {
  var value = 0.0;
  var id = 0xffffffffu;
  var hash = 0u;
  for (var s = 0u; s < 8u; s++) {
    let own = partials[node * 64u + part * 8u + s];
    if (is_better(bitcast<f32>(own.x), own.y, value, id)) { value = bitcast<f32>(own.x); id = own.y; }
    hash = hash + own.z;
  }
  part_value[t] = value;
  part_id[t] = id;
  part_hash[t] = hash;
  workgroupBarrier();
  if (part == 0u) {
    for (var s = 1u; s < 8u; s++) {
      if (is_better(part_value[t + s], part_id[t + s], value, id)) {
        value = part_value[t + s];
        id = part_id[t + s];
      }
      hash = hash + part_hash[t + s];
    }
    choice[node] = id;
    row_hash[node] = hash;
    atomicStore(&ends[node], 0u);
  }
  workgroupBarrier();
  for (var e = 0u; e < 8u; e++) {
    if (control[END_IDS + part * 8u + e] == choice[node]) { atomicStore(&ends[node], 1u); }
  }
}

// Marks the chain of nodes whose tokens are what their parents chose.
fn walk(t: u32, live: u32) {
  if (t < 9u) { path[t] = 0u; }
  if (t < 32u) {
    is_chosen[t] = 0u;
    if (t > 0u && t < live) {
      let depth = ancestors[t * STRIDE + 32u];
      is_chosen[t] = u32(choice[ancestors[t * STRIDE + depth - 1u]] == tokens[t]);
    }
  }
  workgroupBarrier();
  if (t > 0u && t < live) {
    let depth = ancestors[t * STRIDE + 32u];
    var accepted = true;
    for (var d = 1u; d <= depth; d++) { accepted = accepted && is_chosen[ancestors[t * STRIDE + d]] == 1u; }
    if (accepted) { path[depth] = t; }
  }
}

fn record(live: u32, emitted: u32, accepted: u32) {
  let at = RECORDS + (control[STEPS] % RECORD_COUNT) * 3u;
  control[STEPS] = control[STEPS] + 1u;
  if (params.form == TREE) {
    control[at] = live | (emitted << 8u) | (draft[1] << 16u) | (draft[0] << 24u);
    var e = array<u32, 5>();
    for (var w = 0u; w < 5u; w++) { e[w] = min(draft[EXPECTED + w] >> 10u, 1023u); }
    control[at + 1u] = e[0] | (e[1] << 10u) | (e[2] << 20u);
    control[at + 2u] = e[3] | (e[4] << 10u) | (accepted << 20u);
  } else {
    control[at] = live | (emitted << 8u);
    control[at + 1u] = 0u;
    control[at + 2u] = 0u;
  }
}

// The commit of the accepted nodes, one after the other; stops at the first reason to end.
fn commit(live: u32) {
  var committed = control[COMMITTED] + select(0u, live - 1u, params.form == PROMPT);
  var hash = control[HASH];
  var head = control[RING_HEAD];
  var left = control[TOKENS_LEFT];
  var end = 0u;
  var depth = 0u;
  let raised = atomicLoad(&faults);
  let first_head = head;
  for (; depth <= DEPTH_MAX; depth++) {
    let node = path[depth];
    committed = committed + 1u;
    let fault = select((raised >> node) & 1u, raised, params.form == PROMPT);
    if (fault != 0u) {
      control[POISON] = 1u;
      end = 4u;
      break;
    }
    hash = (hash ^ row_hash[node]) * 0x01000193u + 0x9E3779B9u;
    let chosen = choice[node];
    draft[CHOICES + depth] = chosen;
    draft[VISITED_NODES + depth] = node;
    if (atomicLoad(&ends[node]) != 0u) {
      end = 1u;
      break;
    }
    control[RING + head % RING_LEN] = chosen;
    control[HASHES + head % RING_LEN] = hash;
    head = head + 1u;
    tokens[0] = chosen;
    left = left - 1u;
    if (left == 0u) { end = 2u; }
    else if (committed >= control[CONTEXT]) { end = 3u; }
    if (end != 0u) { break; }
    history[MEMORY + committed] = chosen;
    if (depth == DEPTH_MAX || path[depth + 1u] == 0u) { break; }
  }
  control[COMMITTED] = committed;
  control[LIVE] = 1u;
  control[END] = end;
  control[TOKENS_LEFT] = left;
  control[RING_HEAD] = head;
  control[HASH] = hash;
  draft[VISITED] = select(0u, depth + 1u, params.form == TREE && end != 4u);
  if (params.form == TREE) {
    control[PENDING] = ((control[PENDING] & 0x80000000u) ^ 0x80000000u) | depth;
    control[PATH] = path[1] | (path[2] << 8u) | (path[3] << 16u) | (path[4] << 24u);
    control[PATH + 1u] = path[5] | (path[6] << 8u) | (path[7] << 16u) | (path[8] << 24u);
  } else {
    // What a tree step before left was copied ahead of this one.
    control[PENDING] = control[PENDING] & 0x80000000u;
  }
  if (params.form != PROMPT) { record(live, head - first_head, depth); }
  // A fault of a node that was not accepted has no consequence.
  atomicStore(&faults, 0u);
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) t: u32) {
  if (t == 0u) {
    has_ended = control[END];
    live_nodes = control[LIVE];
  }
  if (workgroupUniformLoad(&has_ended) != 0u) { return; }
  let live = workgroupUniformLoad(&live_nodes);
  choose(t / 8u, t % 8u, t);
  workgroupBarrier();
  walk(t, select(1u, live, params.form == TREE));
  workgroupBarrier();
  if (t == 0u) { commit(live); }
}
