// Q2_K: w = d·sc · q - dmin·mn, sc and mn four bits per 16 weights, d and dmin per 256.
//   acc += dx · (d · (sc0 · I_low + sc1 · I_high) - dmin · (mn0 · Sx_low + mn1 · Sx_high))
@group(0) @binding(0) var<storage, read> codes: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> scales: array<u32>;
@group(0) @binding(3) var<storage, read> supers: array<vec2<f32>>;
struct Weights { low: vec4<u32>, high: vec4<u32>, d: vec2<f32>, sc: vec2<i32>, mn: vec2<i32> };

fn load_weights(at: u32, row: u32, block: u32) -> Weights {
  let c = codes[at];
  let k = scales[at >> 1u] >> ((at & 1u) * 16u);
  let d = supers[row * SUPERS + min(block >> 3u, SUPERS - 1u)];
  return Weights(c & vec4<u32>(0x0F0F0F0Fu), (c >> vec4<u32>(4u)) & vec4<u32>(0x0F0F0F0Fu), d,
    vec2<i32>(i32(k & 15u), i32((k >> 8u) & 15u)), vec2<i32>(i32((k >> 4u) & 15u), i32((k >> 12u) & 15u)));
}
fn accumulate(w: Weights, x: Input, acc: f32) -> f32 {
  let i = w.sc.x * dot16(w.low, x.low) + w.sc.y * dot16(w.high, x.high);
  let sx = w.mn.x * sum_low(x.sums) + w.mn.y * sum_high(x.sums);
  return fma(x.dx, fma(w.d.x, f32(i), -(w.d.y * f32(sx))), acc);
}
fn element(w: Weights, code: u32, half: u32) -> f32 {
  return fma(w.d.x * f32(w.sc[half]), f32(code), -(w.d.y * f32(w.mn[half])));
}
