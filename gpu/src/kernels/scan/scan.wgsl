// Where the context's last tokens occurred before: each workgroup searches {{ positions }} indices of the
// history and leaves its best {{ kept }} matches, ranked by length and then by index. A match is
// `length << 16 | index of its last token`; 0 is none. messages/src/draft.rs draws the history.
struct Params {
  first: u32,   // first index that is searched
  width: u32,
};
@group(0) @binding(0) var<storage, read> history: array<u32>;
@group(0) @binding(1) var<storage, read_write> matches: array<u32>;   // [workgroup][{{ kept }}]
@group(0) @binding(7) var<storage, read> control: Control;
@group(0) @binding(8) var<uniform> params: Params;

const MEMORY = {{ memory_tokens }}u;
const ORDERS = {{ orders }}u;
const POSITIONS = {{ positions }}u;
const KEPT = {{ kept }}u;
const SEPARATOR = 0xffffffffu;

var<workgroup> found: array<u32, {{ positions }}>;
var<workgroup> found_count: atomic<u32>;

// Tokens before `index` and it that agree with those that end at `root`.
fn match_len(index: u32, root: u32) -> u32 {
  for (var back = 0u; back < ORDERS; back++) {
    if (index < params.first + back) { return back; }
    let token = history[root - back];
    if (token == SEPARATOR || history[index - back] != token) { return back; }
  }
  return ORDERS;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  if (control.end != 0u) { return; }
  let root = MEMORY + control.committed;
  let stretch = params.first / POSITIONS + group.x;
  if (stretch > root / POSITIONS) { return; }
  if (t == 0u) { atomicStore(&found_count, 0u); }
  workgroupBarrier();
  for (var k = 0u; k < POSITIONS; k += 256u) {
    let index = stretch * POSITIONS + k + t;
    if (index >= params.first && index < root) {
      let len = match_len(index, root);
      if (len > 0u) { found[atomicAdd(&found_count, 1u)] = (len << 16u) | index; }
    }
  }
  workgroupBarrier();
  // Keys are unique, so a key's rank is the number of greater ones, in whatever order they were found.
  let count = atomicLoad(&found_count);
  for (var i = t; i < count; i += 256u) {
    let key = found[i];
    var rank = 0u;
    for (var j = 0u; j < count; j++) { rank += u32(found[j] > key); }
    if (rank < KEPT) { matches[group.x * KEPT + rank] = key; }
  }
  if (t >= count && t < KEPT) { matches[group.x * KEPT + t] = 0u; }
}
