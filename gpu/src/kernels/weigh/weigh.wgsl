// One pass over the rows of logits on the way to the cuts of top-k and top-p: takes what the pass before has
// found, and adds the weights of the candidates by the next digit of their keys. Grid: slices × rows.
struct Params {
  len: u32,
  pass_index: u32,   // among the passes of this request
  stage: u32,        // 0 counts for top-k, 1 adds masses for top-p
  level: u32,        // digit, from the highest
};
@group(0) @binding(0) var<storage, read> logits: array<u32>;      // [row][id], bits
@group(0) @binding(1) var<storage, read> partials: array<u32>;    // [row][slice][4] the last is bits(largest)
@group(0) @binding(6) var<storage, read> sampling: array<u32>;
@group(0) @binding(7) var<storage, read> control: Control;
@group(0) @binding(8) var<uniform> params: Params;

// Weights of this slice by digit: low words, then the carries beyond them in halves of words. A slice is
// short enough that its carries fit.
var<workgroup> slice_low: array<atomic<u32>, {{ bins }}>;
var<workgroup> slice_high: array<atomic<u32>, {{ bins // 2 }}>;

fn add_to_slice(digit: u32, weight: u32) {
  let old = atomicAdd(&slice_low[digit], weight);
  if (old + weight < old) { atomicAdd(&slice_high[digit / 2u], 1u << (16u * (digit % 2u))); }
}

fn add_to_row(at: u32, weight: vec2<u32>) {
  let old = atomicAdd(&selection[at], weight.x);
  let high = weight.y + u32(old + weight.x < old);
  if (high != 0u) { atomicAdd(&selection[at + 1u], high); }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  if (control.end != 0u || group.y >= control.live) { return; }
  let row = group.y;
  let slice_len = slice_len_of(params.len);
  let start = group.x * slice_len;
  let end = min(start + slice_len, params.len);
  // The next pass finds its histogram empty; the last of these clears that of the next step's first.
  let next = histogram_word(row, params.pass_index + 1u);
  for (var i = group.x * 256u + t; i < 2u * BINS; i += groups.x * 256u) {
    atomicStore(&selection[next + i], 0u);
  }
  for (var i = t; i < BINS; i += 256u) { atomicStore(&slice_low[i], 0u); }
  for (var i = t; i < BINS / 2u; i += 256u) { atomicStore(&slice_high[i], 0u); }
  let largest = row_largest(row, t);
  var s = everything();
  if (params.pass_index > 0u) {
    let is_next_stage = params.level == 0u;
    let stage = select(params.stage, COUNT, is_next_stage);
    let level = select(params.level - 1u, LAST_LEVEL, is_next_stage);
    resolve(row, t, params.pass_index - 1u, stage, level, largest);
    s = found;
  }
  workgroupBarrier();
  if (group.x == 0u && t == 0u) { store_state(state_word(row, params.pass_index), s); }
  for (var i = start + t; i < end; i += 256u) {
    let value = clean(logits[row * params.len + i]);
    let key = key_of(value);
    if (key > s.cut && has_prefix(key, s.prefix, params.level)) {
      var weight = 1u;
      if (params.stage == MASS) { weight = mass(value, largest); }
      add_to_slice(digit_of(key, params.level), weight);
    }
  }
  workgroupBarrier();
  let bins = histogram_word(row, params.pass_index);
  for (var i = t; i < BINS; i += 256u) {
    let high = (atomicLoad(&slice_high[i / 2u]) >> (16u * (i % 2u))) & 0xffffu;
    let weight = vec2<u32>(atomicLoad(&slice_low[i]), high);
    if ((weight.x | weight.y) != 0u) { add_to_row(bins + 2u * i, weight); }
  }
  // Those that top-k keeps at its cut are alike: their masses come as one product.
  if (group.x == 0u && t == 0u && s.equal != EVERY && has_prefix(s.cut, s.prefix, params.level)) {
    add_to_row(bins + 2u * digit_of(s.cut, params.level), mul_wide(s.equal, mass(value_of(s.cut), largest)));
  }
}
