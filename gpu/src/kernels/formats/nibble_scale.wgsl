// Q4_0 and Q5_0: w = d · (q - zero).        acc += dx·d · (Σ q·x - zero · Σ x)
@group(0) @binding(0) var<storage, read> codes: array<vec4<u32>>;
{% if high == 1 %}@group(0) @binding(1) var<storage, read> high: array<u32>;{% endif %}
@group(0) @binding(2) var<storage, read> scales: array<f32>;
struct Weights { low: vec4<u32>, high: vec4<u32>, d: f32 };

fn load_weights(at: u32, row: u32, block: u32) -> Weights {
  let c = codes[at];
  var w = Weights(c & vec4<u32>(0x0F0F0F0Fu), (c >> vec4<u32>(4u)) & vec4<u32>(0x0F0F0F0Fu), scales[at]);
{% if high == 1 %}
  let h = vec4<u32>(high[at]);
  w.low |= ((h >> vec4<u32>(0u, 1u, 2u, 3u)) & vec4<u32>(0x01010101u)) << vec4<u32>(4u);
  w.high |= ((h >> vec4<u32>(4u, 5u, 6u, 7u)) & vec4<u32>(0x01010101u)) << vec4<u32>(4u);
{% endif %}
  return w;
}
fn accumulate(w: Weights, x: Input, acc: f32) -> f32 {
  let i = dot16(w.low, x.low) + dot16(w.high, x.high) - {{ zero }} * (sum_low(x.sums) + sum_high(x.sums));
  return fma(x.dx * w.d, f32(i), acc);
}
fn element(w: Weights, code: u32, half: u32) -> f32 { return w.d * f32(i32(code) - {{ zero }}); }
