// The largest value among a workgroup's threads and its id, ties to the lowest id, and the sum of their
// hashes: in slot 0 after `gather`. A logit that is no number can only come from broken weights of the head;
// it raises the fault bit of its row.
var<workgroup> best_value: array<f32, 256>;
var<workgroup> best_id: array<u32, 256>;
var<workgroup> hashes: array<u32, 256>;

// Ids of each of a row's 64 slices: at least as many as threads walk it, so that the last slices of a short
// row are empty.
fn choice_len(len: u32) -> u32 { return max((len + 63u) / 64u, 256u); }

// What an empty slice leaves: no value is below its own.
const NO_CHOICE = vec4<u32>(0xff7fffffu, 0xffffffffu, 0u, 0xff7fffffu);

fn gather(t: u32, value: f32, id: u32, hash: u32) {
  best_value[t] = value;
  best_id[t] = id;
  hashes[t] = hash;
  workgroupBarrier();
  for (var k = 0u; k < 8u; k++) {
    let stride = 128u >> k;
    if (t < stride) {
      let other = t + stride;
      let tied = best_value[other] == best_value[t] && best_id[other] < best_id[t];
      if (best_value[other] > best_value[t] || tied) {
        best_value[t] = best_value[other];
        best_id[t] = best_id[other];
      }
      hashes[t] = hashes[t] + hashes[other];
    }
    workgroupBarrier();
  }
}
