// A result that is zero has no sign. A sum begins with fma(a, b, 0), which is +0 when the product is -0. A
// compiler may make a plain product of it, which is -0, in one pipeline and not in another; the two differ in
// nothing else.
fn unsigned_zero(v: f32) -> f32 {
  let bits = bitcast<u32>(v);
  return bitcast<f32>(select(bits, 0u, bits == 0x80000000u));
}

fn unsigned_zeros(v: vec4<f32>) -> vec4<f32> {
  let bits = bitcast<vec4<u32>>(v);
  return bitcast<vec4<f32>>(select(bits, vec4<u32>(0u), bits == vec4<u32>(0x80000000u)));
}
