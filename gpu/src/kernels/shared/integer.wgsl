// Integer products of packed int8 vectors, and the packed half sums of an activation block.
{% if packed_dot %}
fn dot4(a: u32, b: u32) -> i32 { return dot4I8Packed(a, b); }
{% else %}
// The same integers by shifts, for devices without packed dot products.
fn signed_bytes(v: u32) -> vec4<i32> {
  return bitcast<vec4<i32>>(vec4<u32>(v << 24u, v << 16u, v << 8u, v)) >> vec4<u32>(24u);
}
fn dot4(a: u32, b: u32) -> i32 {
  let p = signed_bytes(a) * signed_bytes(b);
  return p.x + p.y + p.z + p.w;
}
{% endif %}
fn dot16(a: vec4<u32>, x: vec4<u32>) -> i32 {
  return dot4(a.x, x.x) + dot4(a.y, x.y) + dot4(a.z, x.z) + dot4(a.w, x.w);
}
fn sum_low(packed: u32) -> i32 { return bitcast<i32>(packed << 16u) >> 16u; }
fn sum_high(packed: u32) -> i32 { return bitcast<i32>(packed) >> 16u; }
fn sign_byte(v: u32, shift: u32) -> i32 { return bitcast<i32>(v << (24u - shift)) >> 24u; }
