// Q4_K and Q5_K: w = d·sc · q - dmin·mn, sc and mn six bits per block, d and dmin per 256 weights.
//   acc += dx · (d · (sc · Σ q·x) - dmin · (mn · Σ x))
@group(0) @binding(0) var<storage, read> codes: array<vec4<u32>>;
{% if high == 1 %}@group(0) @binding(1) var<storage, read> high: array<u32>;{% endif %}
@group(0) @binding(2) var<storage, read> scales: array<u32>;
@group(0) @binding(3) var<storage, read> supers: array<vec2<f32>>;
struct Weights { low: vec4<u32>, high: vec4<u32>, d: vec2<f32>, sc: i32, mn: i32 };

fn load_weights(at: u32, row: u32, block: u32) -> Weights {
  let c = codes[at];
  let k = scales[at >> 1u] >> ((at & 1u) * 16u);
  let d = supers[row * SUPERS + min(block >> 3u, SUPERS - 1u)];
  let low = c & vec4<u32>(0x0F0F0F0Fu);
  let up = (c >> vec4<u32>(4u)) & vec4<u32>(0x0F0F0F0Fu);
  var w = Weights(low, up, d, i32(k & 0xffu), i32((k >> 8u) & 0xffu));
{% if high == 1 %}
  let h = vec4<u32>(high[at]);
  w.low |= ((h >> vec4<u32>(0u, 1u, 2u, 3u)) & vec4<u32>(0x01010101u)) << vec4<u32>(4u);
  w.high |= ((h >> vec4<u32>(4u, 5u, 6u, 7u)) & vec4<u32>(0x01010101u)) << vec4<u32>(4u);
{% endif %}
  return w;
}
fn accumulate(w: Weights, x: Input, acc: f32) -> f32 {
  let i = (dot16(w.low, x.low) + dot16(w.high, x.high)) * w.sc;
  let sx = (sum_low(x.sums) + sum_high(x.sums)) * w.mn;
  return fma(x.dx, fma(w.d.x, f32(i), -(w.d.y * f32(sx))), acc);
}
fn element(w: Weights, code: u32, half: u32) -> f32 {
  return fma(w.d.x * f32(w.sc), f32(code), -(w.d.y * f32(w.mn)));
}
