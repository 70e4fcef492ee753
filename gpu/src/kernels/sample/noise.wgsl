// Noise that belongs to a position and a token: Philox-4x32-10 (Salmon, Moraes, Dror and Shaw 2011) with the
// seed as key and (token / 4, position, 0, 0) as counter; token % 4 picks the word.
fn philox(token_group: u32, position: u32) -> vec4<u32> {
  var c = vec4<u32>(token_group, position, 0u, 0u);
  var key = vec2<u32>(sampling[SEED], sampling[SEED + 1u]);
  for (var k = 0u; k < 10u; k++) {
    let first = mul_wide(0xD2511F53u, c.x);
    let second = mul_wide(0xCD9E8D57u, c.z);
    c = vec4<u32>(second.y ^ c.y ^ key.x, second.x, first.y ^ c.w ^ key.y, first.x);
    key += vec2<u32>(0x9E3779B9u, 0xBB67AE85u);
  }
  return c;
}

// (ln(1 + r) - r) / r² by a polynomial fitted between sqrt(1/2) and sqrt(2), relative error below 2^-26.
fn log_tail(r: f32) -> f32 {
  var q = fma(-0.0786779374, r, 0.128234357);
  q = fma(q, r, -0.131019875);
  q = fma(q, r, 0.141887993);
  q = fma(q, r, -0.166275486);
  q = fma(q, r, 0.200019762);
  q = fma(q, r, -0.250007749);
  q = fma(q, r, 0.333333224);
  return fma(q, r, -0.49999997);
}

// ln of a positive normal number: 2^e · (1 + r) with 1 + r between sqrt(1/2) and sqrt(2).
fn log_of(x: f32) -> f32 {
  let bits = bitcast<u32>(x) - 0x3f3504f3u;
  let e = bitcast<i32>(bits) >> 23u;
  let r = bitcast<f32>((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0;
  return fma(f32(e), 0.693147182, fma(r * r, log_tail(r), r));
}

// -ln(E) with E = -ln(1 - v), v = (word + 1/2) / 2^32: Gumbel noise. Near 0, E comes from v itself.
fn gumbel(word: u32) -> f32 {
  let v = (f32(word) + 0.5) * 2.3283064365386963e-10;
  let u = (f32(~word) + 0.5) * 2.3283064365386963e-10;
  if (word < 0x40000000u) { return -log_of(fma(v * v, -log_tail(-v), v)); }
  return -log_of(-log_of(u));
}
