// Logit bias and penalties, in place, and what the choice kernel leaves: the largest logit of each slice,
// ties to the lowest id, and the slice's part of the row hash, which is that of the raw logits.
//   x = logit + bias;   repeated: x > 0 ? x / r : x · r;   x -= frequency · count + presence · (count > 0)
// Grid: 64 slices × rows. A slice is walked in tiles of ids; each tile first marks the ids that change.
struct Params {
  len: u32,
  hash: u32,
  form: u32,   // 0 the last batch of a prompt, 1 a plain step, 2 a tree step
};
@group(0) @binding(0) var<storage, read_write> logits: array<f32>;   // [row][id]
// [row][slice] as choose leaves it
@group(0) @binding(1) var<storage, read_write> partials: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> tokens: array<u32>;         // of the nodes
@group(0) @binding(3) var<storage, read> history: array<u32>;
@group(0) @binding(4) var<storage, read> ancestors: array<u32>;
@group(0) @binding(6) var<storage, read> sampling: array<u32>;
@group(0) @binding(7) var<storage, read> control: Control;
@group(0) @binding(8) var<uniform> params: Params;
@group(0) @binding(9) var<storage, read_write> faults: atomic<u32>;

const TILE = {{ tile }}u;
const REPEATED = 0x10000u;   // below: how often the reply has the token; above: 1 + its bias

var<workgroup> marks: array<atomic<u32>, {{ tile }}>;

// A token of the context that a row follows; a node's own path lies beyond the root.
fn token_at(row: u32, position: u32) -> u32 {
  if (params.form != TREE || position <= control.committed) { return history[MEMORY + position]; }
  return tokens[ancestors[row * STRIDE + position - control.committed]];
}

// Marks the ids from `first` on, below `end`.
fn mark(t: u32, row: u32, first: u32, end: u32) {
  let len = end - first;
  for (var i = t; i < len; i += 256u) { atomicStore(&marks[i], 0u); }
  workgroupBarrier();
  let last = last_position(row);
  let window = min(sampling[REPEAT_WINDOW], last + 1u);
  for (var back = t; back < window; back += 256u) {
    let i = token_at(row, last - back) - first;
    if (i < len) { atomicOr(&marks[i], REPEATED); }
  }
  if (sampling[FREQUENCY_PENALTY] != 0u || sampling[PRESENCE_PENALTY] != 0u) {
    for (var position = sampling[GENERATED_FROM] + t; position <= last; position += 256u) {
      let i = token_at(row, position) - first;
      if (i < len) { atomicAdd(&marks[i], 1u); }
    }
  }
  for (var bias = t; bias < sampling[BIASES]; bias += 256u) {
    let i = sampling[BIAS_IDS + bias] - first;
    if (i < len) { atomicOr(&marks[i], (bias + 1u) << 17u); }
  }
  workgroupBarrier();
}

fn adjusted(raw: f32, marks: u32) -> f32 {
  var x = raw;
  let bias = marks >> 17u;
  if (bias != 0u) { x = x + bitcast<f32>(sampling[BIAS_VALUES + bias - 1u]); }
  if ((marks & REPEATED) != 0u) {
    let penalty = bitcast<f32>(sampling[REPEAT_PENALTY]);
    if (x > 0.0) { x = x / penalty; } else { x = x * penalty; }
  }
  let count = marks & 0xffffu;
  if (count != 0u) {
    x = fma(-bitcast<f32>(sampling[FREQUENCY_PENALTY]), f32(count), x);
    x = x - bitcast<f32>(sampling[PRESENCE_PENALTY]);
  }
  return x;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  if (control.end != 0u || group.y >= control.live) { return; }
  if (group.x == 0u && t >= groups.x && t < 64u) { partials[group.y * 64u + t] = NO_CHOICE; }
  let slice_len = choice_len(params.len);
  let start = group.x * slice_len;
  let end = min(start + slice_len, params.len);
  let row = group.y * params.len;
  var value = -3.4028234e38;
  var id = 0xffffffffu;
  var hash = 0u;
  var broken = false;
  for (var tile = start; tile < end; tile += TILE) {
    let tile_end = min(tile + TILE, end);
    mark(t, group.y, tile, tile_end);
    for (var i = tile + t; i < tile_end; i += 256u) {
      var x = logits[row + i];
      broken = broken || is_broken(vec4<f32>(x));
      if (params.hash == 1u) { hash = hash + mix(i, bitcast<u32>(x)); }
      let found = atomicLoad(&marks[i - tile]);
      if (found != 0u) {
        x = adjusted(x, found);
        logits[row + i] = x;
      }
      if (x > value || id == 0xffffffffu) { value = x; id = i; }
    }
    workgroupBarrier();
  }
  if (broken) { atomicOr(&faults, 1u << (group.y & 31u)); }
  gather(t, value, id, hash);
  if (t == 0u) {
    let bits = bitcast<u32>(best_value[0]);
    partials[group.y * 64u + group.x] = vec4<u32>(bits, best_id[0], hashes[0], bits);
  }
}
