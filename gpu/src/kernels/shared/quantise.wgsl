// Quantises a row to int8 with one scale per 32 elements, in slab order. Four neighbouring threads share a
// block: thread `t` brings the eight elements of quarter `t % 4`. Call in uniform control flow (it holds two
// barriers).
//   dx = amax / 127,  code = round(x / dx) clamped to ±127
//   meta = { bits(dx), sum of codes 0..16 | 16..32 as i16 }
// A block of zeros gets dx = 0 and codes 0. A NaN or infinity raises the fault bit of its row instead of
// spreading.
const TINY = 1e-30;

var<workgroup> quarter_max: array<f32, GROUP>;
var<workgroup> quarter_sum: array<i32, GROUP>;

fn pack_codes(q: vec4<i32>) -> u32 {
  let b = bitcast<vec4<u32>>(q) & vec4<u32>(0xffu);
  return b.x | (b.y << 8u) | (b.z << 16u) | (b.w << 24u);
}

fn slab_position(block: u32) -> u32 {
  return (block % BLOCKS_PER_SLAB) * SLABS + block / BLOCKS_PER_SLAB;
}

fn quantise(row: u32, block: u32, t: u32, a: vec4<f32>, b: vec4<f32>, live: bool) {
  if (live && (is_broken(a) || is_broken(b))) { atomicOr(&faults, 1u << (row & 31u)); }
  let m = max(abs(a), abs(b));
  quarter_max[t] = max(max(m.x, m.y), max(m.z, m.w));
  workgroupBarrier();
  let first = t & ~3u;
  let front = max(quarter_max[first], quarter_max[first + 1u]);
  let amax = max(front, max(quarter_max[first + 2u], quarter_max[first + 3u]));
  let dx = select(amax * (1.0 / 127.0), 0.0, amax < TINY);
  let inverse = select(1.0 / dx, 0.0, amax < TINY);
  let qa = clamp(vec4<i32>(round(a * inverse)), vec4<i32>(-127), vec4<i32>(127));
  let qb = clamp(vec4<i32>(round(b * inverse)), vec4<i32>(-127), vec4<i32>(127));
  let s = qa + qb;
  quarter_sum[t] = s.x + s.y + s.z + s.w;
  workgroupBarrier();
  if (live && block < SLABS * BLOCKS_PER_SLAB) {
    let at = row * SLABS * BLOCKS_PER_SLAB + slab_position(block);
    let quarter = t & 3u;
    out_codes[at * 8u + quarter * 2u] = pack_codes(qa);
    out_codes[at * 8u + quarter * 2u + 1u] = pack_codes(qb);
    if (quarter == 0u) {
      let low = bitcast<u32>(quarter_sum[first] + quarter_sum[first + 1u]) & 0xffffu;
      let high = bitcast<u32>(quarter_sum[first + 2u] + quarter_sum[first + 3u]) << 16u;
      out_meta[at] = vec2<u32>(bitcast<u32>(dx), low | high);
    }
{% if keeps_values %}
    out_values[at * 8u + quarter * 2u] = a;
    out_values[at * 8u + quarter * 2u + 1u] = b;
{% endif %}
  }
}
