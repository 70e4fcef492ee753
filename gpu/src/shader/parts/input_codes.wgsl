// The activation of a quantised matrix: int8 codes and scales in slab order.
@group(0) @binding(4) var<storage, read> input_codes: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> input_meta: array<vec2<u32>>;
fn load_input(at: u32) -> Input {
  let m = input_meta[at];
  return Input(input_codes[at * 2u], input_codes[at * 2u + 1u], bitcast<f32>(m.x), m.y);
}
