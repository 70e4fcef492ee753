// Draws a token for each row: of the candidates that top-k, top-p and min-p leave, the one with the largest
// logit / temperature + Gumbel noise, which has it with the probability of the softmax (Gumbel 1954). Leaves
// the best of each slice where the choice kernel left its largest logit. Grid: slices × rows; a thread
// takes four ids at a time, which share their noise.
struct Params {
  len: u32,
  form: u32,     // 0 the last batch of a prompt, 1 a plain step, 2 a tree step
  passes: u32,   // that went before, 0 when neither top-k nor top-p cuts
  stage: u32,    // of the last of them
};
@group(0) @binding(0) var<storage, read> logits: array<u32>;             // [row][id], bits
@group(0) @binding(1) var<storage, read_write> partials: array<u32>;     // [row][slice][4]
@group(0) @binding(4) var<storage, read> ancestors: array<u32>;
@group(0) @binding(6) var<storage, read> sampling: array<u32>;
@group(0) @binding(7) var<storage, read> control: Control;
@group(0) @binding(8) var<uniform> params: Params;

var<workgroup> counted: atomic<u32>;
var<workgroup> count_seen: u32;

// How many candidates at the cut have an id from `first` on, below `end`.
fn count_equal(row: u32, t: u32, first: u32, end: u32, cut: u32) -> u32 {
  if (t == 0u) { atomicStore(&counted, 0u); }
  workgroupBarrier();
  var own = 0u;
  for (var i = first + t; i < end; i += 256u) {
    own += u32(key_of(clean(logits[row * params.len + i])) == cut);
  }
  atomicAdd(&counted, own);
  workgroupBarrier();
  if (t == 0u) { count_seen = atomicLoad(&counted); }
  return workgroupUniformLoad(&count_seen);
}

// The id below which candidates at the cut stay, within a slice: the lowest ids stay.
fn equal_limit(row: u32, t: u32, start: u32, end: u32, s: Selection) -> u32 {
  let before = count_equal(row, t, 0u, start, s.cut);
  // The largest limit with no more than `equal` of them below it.
  var low = start;
  var high = end;
  while (low < high) {
    let middle = (low + high + 1u) / 2u;
    let count = before + count_equal(row, t, start, middle, s.cut);
    if (count <= s.equal) { low = middle; } else { high = middle - 1u; }
  }
  return low;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  if (control.end != 0u || group.y >= control.live) { return; }
  let row = group.y;
  let slice_len = slice_len_of(params.len);
  let start = group.x * slice_len;
  let end = min(start + slice_len, params.len);
  // Slices beyond these hold nothing any more.
  if (group.x == 0u && t >= groups.x && t < 64u) { partials[(row * 64u + t) * 4u + 1u] = 0xffffffffu; }
  let largest = row_largest(row, t);
  if (t == 0u) { found = everything(); }
  workgroupBarrier();
  if (params.passes > 0u) { resolve(row, t, params.passes - 1u, params.stage, LAST_LEVEL, largest); }
  let s = workgroupUniformLoad(&found);
  var limit = end;
  if (s.is_whole == 0u) { limit = equal_limit(row, t, start, end, s); }
  let rate = bitcast<f32>(sampling[RATE]);
  let scale = bitcast<f32>(sampling[SCALE]);
  let min_exponent = bitcast<f32>(sampling[MIN_EXPONENT]);
  let position = last_position(row) + 1u;
  var best = -VALUE_MAX;
  var id = 0xffffffffu;
  for (var first = start + 4u * t; first < end; first += 1024u) {
    let noise = philox(first / 4u, position);
    for (var k = 0u; k < 4u; k++) {
      let i = first + k;
      if (i < end) {
        let value = clean(logits[row * params.len + i]);
        let key = key_of(value);
        let is_likely = value == largest || (value - largest) * scale >= min_exponent;
        if (is_likely && (key > s.cut || (key == s.cut && i < limit))) {
          let score = max(fma(value, rate, gumbel(noise[k])), -VALUE_MAX);
          if (score > best || id == 0xffffffffu) { best = score; id = i; }
        }
      }
    }
  }
  gather(t, best, id, 0u);
  if (t == 0u) {
    let at = (row * 64u + group.x) * 4u;
    partials[at] = bitcast<u32>(best_value[0]);
    partials[at + 1u] = best_id[0];
  }
}
