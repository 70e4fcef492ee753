// The activation of a float matrix: f32 elements in slab order.
@group(0) @binding(4) var<storage, read> input_values: array<vec4<f32>>;
fn load_input(at: u32) -> Input {
  var x: Input;
  for (var i = 0u; i < 8u; i++) { x.v[i] = input_values[at * 8u + i]; }
  return x;
}
