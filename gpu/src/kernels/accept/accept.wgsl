// Commits the step: advances the cache, folds the hash, appends the chosen token to the ring, raises the end
// flag. One workgroup, a thread per slice of the logits row and per end id; the next step reads what it
// leaves. messages/src/control.rs draws the buffer.
@group(0) @binding(0) var<storage, read> partials: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> tokens: array<u32>;
@group(0) @binding(6) var<storage, read_write> faults: atomic<u32>;
@group(0) @binding(7) var<storage, read_write> control: array<u32>;

const COMMITTED = 0u;
const LIVE = 1u;
const CONTEXT = 2u;
const END = 3u;
const TOKENS_LEFT = 5u;
const POISON = 6u;
const RING_HEAD = 7u;
const HASH = 8u;
const END_IDS = {{ end_ids_word }}u;
const RING = {{ ring_word }}u;
const RING_LEN = {{ ring_len }}u;
const NONE = 0xffffffffu;

var<workgroup> has_ended: u32;
var<workgroup> value: array<f32, 64>;
var<workgroup> id: array<u32, 64>;
var<workgroup> hash: array<u32, 64>;
var<workgroup> is_end: atomic<u32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) t: u32) {
  if (t == 0u) {
    has_ended = control[END];
    atomicStore(&is_end, 0u);
  }
  if (workgroupUniformLoad(&has_ended) != 0u) { return; }
  let own = partials[t];
  value[t] = bitcast<f32>(own.x);
  id[t] = own.y;
  hash[t] = own.z;
  workgroupBarrier();
  for (var k = 0u; k < 6u; k++) {
    let stride = 32u >> k;
    if (t < stride) {
      let other = t + stride;
      let better = value[other] > value[t] || (value[other] == value[t] && id[other] < id[t]);
      if (id[other] != NONE && (better || id[t] == NONE)) {
        value[t] = value[other];
        id[t] = id[other];
      }
      hash[t] = hash[t] + hash[other];
    }
    workgroupBarrier();
  }
  let choice = id[0];
  if (control[END_IDS + t] == choice) { atomicStore(&is_end, 1u); }
  workgroupBarrier();
  if (t != 0u) { return; }
  let committed = control[COMMITTED] + control[LIVE];
  control[COMMITTED] = committed;
  control[LIVE] = 1u;
  if (atomicLoad(&faults) != 0u) {
    control[POISON] = 1u;
    control[END] = 4u;
    return;
  }
  control[HASH] = (control[HASH] ^ hash[0]) * 0x01000193u + 0x9E3779B9u;
  if (atomicLoad(&is_end) != 0u) {
    control[END] = 1u;
    return;
  }
  let head = control[RING_HEAD];
  control[RING + head % RING_LEN] = choice;
  control[RING_HEAD] = head + 1u;
  tokens[0] = choice;
  let left = control[TOKENS_LEFT] - 1u;
  control[TOKENS_LEFT] = left;
  if (left == 0u) { control[END] = 2u; }
  else if (committed >= control[CONTEXT]) { control[END] = 3u; }
}
