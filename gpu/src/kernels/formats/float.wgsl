// F32, F16 and BF16: plain weights against the f32 elements, one fma each in order.
{% if float == "f32" %}
@group(0) @binding(0) var<storage, read> codes: array<vec4<f32>>;
struct Weights { v: array<vec4<f32>, 8> };
fn load_weights(at: u32, row: u32, block: u32) -> Weights {
  var w: Weights;
  for (var i = 0u; i < 8u; i++) { w.v[i] = codes[at * 8u + i]; }
  return w;
}
{% else %}
@group(0) @binding(0) var<storage, read> codes: array<vec4<u32>>;
struct Weights { v: array<vec4<f32>, 8> };
{% if float == "f16" %}
// Halves by integer arithmetic: subnormals must survive devices that flush them.
fn half_to_float(h: u32) -> f32 {
  let sign = (h & 0x8000u) << 16u;
  let magnitude = h & 0x7fffu;
  let normal = bitcast<f32>(((magnitude << 13u) + 0x38000000u) | sign);
  let small = bitcast<f32>(bitcast<u32>(f32(magnitude) * 5.9604644775390625e-8) | sign);
  return select(normal, small, magnitude < 0x400u);
}
fn pair(v: u32) -> vec2<f32> { return vec2<f32>(half_to_float(v & 0xffffu), half_to_float(v >> 16u)); }
{% else %}
fn pair(v: u32) -> vec2<f32> { return vec2<f32>(bitcast<f32>(v << 16u), bitcast<f32>(v & 0xffff0000u)); }
{% endif %}
fn load_weights(at: u32, row: u32, block: u32) -> Weights {
  var w: Weights;
  for (var i = 0u; i < 4u; i++) {
    let c = codes[at * 4u + i];
    w.v[2u * i] = vec4<f32>(pair(c.x), pair(c.y));
    w.v[2u * i + 1u] = vec4<f32>(pair(c.z), pair(c.w));
  }
  return w;
}
{% endif %}
fn accumulate(w: Weights, x: Input, acc: f32) -> f32 {
  var a = acc;
  for (var i = 0u; i < 8u; i++) {
    a = fma(w.v[i].x, x.v[i].x, a);
    a = fma(w.v[i].y, x.v[i].y, a);
    a = fma(w.v[i].z, x.v[i].z, a);
    a = fma(w.v[i].w, x.v[i].w, a);
  }
  return a;
}
