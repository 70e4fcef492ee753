// NaN or infinite. By the bits: a compiler may take it that neither occurs.
fn is_broken(v: vec4<f32>) -> bool {
  return any((bitcast<vec4<u32>>(v) & vec4<u32>(0x7f800000u)) == vec4<u32>(0x7f800000u));
}
