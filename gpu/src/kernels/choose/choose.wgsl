// Largest logit of each slice of each row, ties to the lowest id, and the slice's part of the row hash.
// Grid: 64 slices × rows; 256 threads per slice, each walking its slice at stride 256.
struct Params { len: u32, hash: u32 };
@group(0) @binding(0) var<storage, read> logits: array<f32>;
// [row][slice] bits(value), id, hash, 0
@group(0) @binding(1) var<storage, read_write> partials: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read> control: Control;
@group(0) @binding(8) var<uniform> params: Params;

var<workgroup> best_value: array<f32, 256>;
var<workgroup> best_id: array<u32, 256>;
var<workgroup> hashes: array<u32, 256>;

// mix(index, bits): a bijective scrambler of the xor-shift-multiply family.
fn mix(index: u32, bits: u32) -> u32 {
  var h = bits ^ (index * 0x9E3779B9u);
  h = (h ^ (h >> 16u)) * 0x85EBCA6Bu;
  h = (h ^ (h >> 13u)) * 0xC2B2AE35u;
  return h ^ (h >> 16u);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  if (control.end != 0u || group.y >= control.live) { return; }
  let slice_len = (params.len + 63u) / 64u;
  let start = group.x * slice_len;
  let end = min(start + slice_len, params.len);
  let row = group.y * params.len;
  var value = -3.4028234e38;
  var id = 0xffffffffu;
  var hash = 0u;
  for (var i = start + t; i < end; i += 256u) {
    let x = logits[row + i];
    if (x > value || id == 0xffffffffu) { value = x; id = i; }
    if (params.hash == 1u) { hash = hash + mix(i, bitcast<u32>(x)); }
  }
  best_value[t] = value;
  best_id[t] = id;
  hashes[t] = hash;
  workgroupBarrier();
  for (var k = 0u; k < 8u; k++) {
    let stride = 128u >> k;
    if (t < stride) {
      let other = t + stride;
      let tied = best_value[other] == best_value[t] && best_id[other] < best_id[t];
      if (best_value[other] > best_value[t] || tied) {
        best_value[t] = best_value[other];
        best_id[t] = best_id[other];
      }
      hashes[t] = hashes[t] + hashes[other];
    }
    workgroupBarrier();
  }
  if (t == 0u) {
    partials[group.y * 64u + group.x] = vec4<u32>(bitcast<u32>(best_value[0]), best_id[0], hashes[0], 0u);
  }
}
