// Largest logit of each slice of each row, ties to the lowest id, and the slice's part of the row hash.
// Grid: slices that hold something × rows; 256 threads per slice, each walking its slice at stride 256.
struct Params { len: u32, hash: u32 };
@group(0) @binding(0) var<storage, read> logits: array<f32>;
// [row][slice] bits(value), id, hash, bits(value) again: a sampler overwrites the first two
@group(0) @binding(1) var<storage, read_write> partials: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read> control: Control;
@group(0) @binding(8) var<uniform> params: Params;
@group(0) @binding(9) var<storage, read_write> faults: atomic<u32>;

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
  for (var i = start + t; i < end; i += 256u) {
    let x = logits[row + i];
    broken = broken || is_broken(vec4<f32>(x));
    if (x > value || id == 0xffffffffu) { value = x; id = i; }
    if (params.hash == 1u) { hash = hash + mix(i, bitcast<u32>(x)); }
  }
  if (broken) { atomicOr(&faults, 1u << (group.y & 31u)); }
  gather(t, value, id, hash);
  if (t == 0u) {
    let bits = bitcast<u32>(best_value[0]);
    partials[group.y * 64u + group.x] = vec4<u32>(bits, best_id[0], hashes[0], bits);
  }
}
