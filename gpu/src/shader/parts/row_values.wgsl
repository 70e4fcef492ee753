// A row of logits as selection sees it: order and weights are integers, so that no sum depends on an order.
const VALUE_MAX = 3.4028234e38;
const MASS_ONE = 1073741824.0;   // 2^30, the mass of the largest logit

// Ids of a slice, a multiple of four: at most 64 slices, none shorter than a workgroup at four ids a thread.
fn slice_len_of(len: u32) -> u32 { return max((len + 255u) / 256u * 4u, 1024u); }

// Bounded, and the lowest value in place of what is not a number.
fn clean(bits: u32) -> f32 {
  if ((bits & 0x7fffffffu) > 0x7f800000u) { return -VALUE_MAX; }
  return clamp(bitcast<f32>(bits), -VALUE_MAX, VALUE_MAX);
}

// Keys order as values do; zeros of both signs are equal.
fn key_of(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  if ((bits & 0x7fffffffu) == 0u) { return 0x80000000u; }
  return select(bits | 0x80000000u, ~bits, (bits & 0x80000000u) != 0u);
}
fn value_of(key: u32) -> f32 {
  return bitcast<f32>(select(~key, key & 0x7fffffffu, (key & 0x80000000u) != 0u));
}

// 2^30 · exp((value - largest) / temperature), rounded down; 0 below 2^-31 of the largest.
fn mass(value: f32, largest: f32) -> u32 {
  let exponent = min((value - largest) * bitcast<f32>(sampling[SCALE]), 0.0);
  if (!(exponent > -31.0)) { return 0u; }
  let whole = floor(exponent);
  let x = exponent - whole;
  var p = fma(2.18775429e-4, x, 1.23878487e-3);
  p = fma(p, x, 9.684572e-3);
  p = fma(p, x, 5.54804355e-2);
  p = fma(p, x, 0.240230501);
  p = fma(p, x, 0.693146944);
  p = fma(p, x, 1.0);
  return u32(p * MASS_ONE) >> u32(-whole);
}

var<workgroup> slice_largest: array<f32, 64>;

// The largest logit of a row, from what the choice left of each slice.
fn row_largest(row: u32, t: u32) -> f32 {
  if (t < 64u) { slice_largest[t] = clean(partials[(row * 64u + t) * 4u + 3u]); }
  workgroupBarrier();
  var largest = -VALUE_MAX;
  for (var slice = 0u; slice < 64u; slice++) { largest = max(largest, slice_largest[slice]); }
  return largest;
}
