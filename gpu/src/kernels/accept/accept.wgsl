// Commits the step: advances the cache, folds the hash, appends the chosen token to the ring, raises the end flag.
// One thread; the next step reads what it leaves. messages/src/control.rs draws the buffer.
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
const END_ID_COUNT = {{ end_ids_max }}u;
const RING = {{ ring_word }}u;
const RING_LEN = {{ ring_len }}u;

@compute @workgroup_size(1)
fn main() {
  if (control[END] != 0u) { return; }
  var best = partials[0];
  var row_hash = best.z;
  for (var s = 1u; s < 64u; s++) {
    let p = partials[s];
    let better = bitcast<f32>(p.x) > bitcast<f32>(best.x) || (p.x == best.x && p.y < best.y);
    row_hash = row_hash + p.z;
    if (p.y != 0xffffffffu && (better || best.y == 0xffffffffu)) { best = p; }
  }
  let committed = control[COMMITTED] + control[LIVE];
  control[COMMITTED] = committed;
  control[LIVE] = 1u;
  if (atomicLoad(&faults) != 0u) {
    control[POISON] = 1u;
    control[END] = 4u;
    return;
  }
  control[HASH] = (control[HASH] ^ row_hash) * 0x01000193u + 0x9E3779B9u;
  var ends = false;
  for (var i = 0u; i < END_ID_COUNT; i++) { ends = ends || control[END_IDS + i] == best.y; }
  if (ends) {
    control[END] = 1u;
    return;
  }
  let head = control[RING_HEAD];
  control[RING + head % RING_LEN] = best.y;
  control[RING_HEAD] = head + 1u;
  tokens[0] = best.y;
  let left = control[TOKENS_LEFT] - 1u;
  control[TOKENS_LEFT] = left;
  if (left == 0u) { control[END] = 2u; }
  else if (committed >= control[CONTEXT]) { control[END] = 3u; }
}
