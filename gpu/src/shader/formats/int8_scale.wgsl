// Q8_0 (and IQ4_NL, whose table values are int8): w = d · q.       acc += dx·d · Σ q·x
@group(0) @binding(0) var<storage, read> codes: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> scales: array<f32>;
struct Weights { low: vec4<u32>, high: vec4<u32>, d: f32 };

fn load_weights(at: u32, row: u32, block: u32) -> Weights {
  return Weights(codes[at * 2u], codes[at * 2u + 1u], scales[at]);
}
fn accumulate(w: Weights, x: Input, acc: f32) -> f32 {
  return fma(x.dx * w.d, f32(dot16(w.low, x.low) + dot16(w.high, x.high)), acc);
}
fn element(w: Weights, code: u32, half: u32) -> f32 { return w.d * f32(bitcast<i32>(code << 24u) >> 24u); }
