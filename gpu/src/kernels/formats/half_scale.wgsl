// Q6_K and Q3_K: w = d·sc · (q - zero), sc an int8 per 16 weights, d per 256.
//   acc += dx·d · (sc0 · (Σ q·x - zero · Σ x)_low + sc1 · (…)_high)
@group(0) @binding(0) var<storage, read> codes: array<vec4<u32>>;
{% if high == 2 %}@group(0) @binding(1) var<storage, read> high: array<vec2<u32>>;{% endif %}
@group(0) @binding(2) var<storage, read> scales: array<u32>;
@group(0) @binding(3) var<storage, read> supers: array<f32>;
struct Weights { low: vec4<u32>, high: vec4<u32>, d: f32, sc: vec2<i32> };

fn load_weights(at: u32, row: u32, block: u32) -> Weights {
  let c = codes[at];
  let k = scales[at >> 1u] >> ((at & 1u) * 16u);
  let d = supers[row * SUPERS + min(block >> 3u, SUPERS - 1u)];
  let low = c & vec4<u32>(0x0F0F0F0Fu);
  let up = (c >> vec4<u32>(4u)) & vec4<u32>(0x0F0F0F0Fu);
  var w = Weights(low, up, d, vec2<i32>(sign_byte(k, 0u), sign_byte(k, 8u)));
{% if high == 2 %}
  let h = high[at];
  w.low |= ((vec4<u32>(h.x) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(0x03030303u)) << vec4<u32>(4u);
  w.high |= ((vec4<u32>(h.y) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(0x03030303u)) << vec4<u32>(4u);
{% endif %}
  return w;
}
fn accumulate(w: Weights, x: Input, acc: f32) -> f32 {
  let low = dot16(w.low, x.low) - {{ zero }} * sum_low(x.sums);
  let high = dot16(w.high, x.high) - {{ zero }} * sum_high(x.sums);
  return fma(x.dx * w.d, f32(w.sc.x * low + w.sc.y * high), acc);
}
fn element(w: Weights, code: u32, half: u32) -> f32 {
  return w.d * f32(w.sc[half]) * f32(i32(code) - {{ zero }});
}
