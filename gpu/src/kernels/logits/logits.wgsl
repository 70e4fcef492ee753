// logits = cap · tanh(scale · logits / cap), in place; without a cap, scale · logits. What is not finite stays
// so: the choice raises its fault.
// Grid: 256 elements × rows.
struct Params {
  len: u32,
  scale: f32,
  soft_cap: f32,   // 0: none
};
@group(0) @binding(0) var<storage, read_write> logits: array<f32>;   // [row][id]
@group(0) @binding(7) var<storage, read> control: Control;
@group(0) @binding(8) var<uniform> params: Params;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let id = group.x * 256u + t;
  if (control.end != 0u || group.y >= control.live || id >= params.len) { return; }
  let at = group.y * params.len + id;
  var x = params.scale * logits[at];
  if (params.soft_cap > 0.0 && !is_broken(vec4<f32>(x))) { x = capped(x, params.soft_cap); }
  logits[at] = x;
}
