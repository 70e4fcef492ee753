// What orders are worth: evidence at a node, its mixture, and learning from the last walk.
// What the matches at a node say: a byte per order.
struct Counts { onward: vec2<u32>, through: vec2<u32>, mixed: u32 };

// One in every byte up to an order of 1..8.
fn up_to(order: u32) -> vec2<u32> {
  let low = 0x01010101u >> (8u * (4u - min(order, 4u)));
  let high = select(0u, 0x01010101u >> (8u * (8u - max(order, 5u))), order > 4u);
  return vec2<u32>(low, high);
}
fn byte_of(v: vec2<u32>, order: u32) -> u32 {
  return (select(v.x, v.y, order >= 4u) >> (8u * (order % 4u))) & 0xffu;
}
fn evidence(onward: u32, mixed: u32, order: u32) -> u32 {
  return select(select(1u, 0u, onward == 1u), 2u, ((mixed >> order) & 1u) == 1u);
}

fn conditional_of(counts: Counts) -> u32 {
  var left = ONE;
  var probability = 0u;
  for (var k = 0u; k < 8u; k++) {
    let order = 7u - k;
    let onward = byte_of(counts.onward, order);
    if (onward > 0u) {
      let share = (left * reliability[order * 3u + evidence(onward, counts.mixed, order)]) >> 16u;
      probability += share * byte_of(counts.through, order) / onward;
      left -= share;
    }
  }
  return probability;
}

// Moves each order's reliability towards the posterior probability that it told what the last walk saw.
fn learn(t: u32) {
  if (t < 24u) { reliability[t] = draft[RELIABILITIES + t]; }
  if (t < 9u) { child_of[t] = 0u; }
  workgroupBarrier();
  let nodes = min(draft[0], NODES);
  if (t > 0u && t < nodes) {
    for (var v = 0u; v < visited; v++) {
      let is_child = draft[RECORDS + t * RECORD] == draft[VISITED_NODES + v];
      if (is_child && tokens[t] == draft[CHOICES + v]) { child_of[v] = t; }
    }
  }
  workgroupBarrier();
  // A thread per visit and order: the order's slot, and what it made of the choice.
  if (t < 8u * visited) {
    let v = t / 8u;
    let order = t % 8u;
    let node = RECORDS + draft[VISITED_NODES + v] * RECORD;
    let onward = byte_of(vec2<u32>(draft[node + 4u], draft[node + 5u]), order);
    seen_slot[t] = SEPARATOR;
    if (onward > 0u) {
      let child = RECORDS + child_of[v] * RECORD;
      let through = byte_of(vec2<u32>(draft[child + 2u], draft[child + 3u]), order);
      seen_share[t] = select(0u, through * ONE / onward, child_of[v] != 0u);
      seen_slot[t] = order * 3u + evidence(onward, draft[node + 6u], order);
    }
  }
  workgroupBarrier();
  if (t == 0u) {
    for (var v = 0u; v < visited; v++) {
      var below = {{ floor }}u;
      for (var order = 0u; order < 8u; order++) {
        let slot = seen_slot[v * 8u + order];
        if (slot != SEPARATOR) {
          let r = reliability[slot];
          let own = (r * seen_share[v * 8u + order]) >> 16u;
          let rest = ((ONE - r) * below) >> 16u;
          let posterior = min(((own << 15u) / max(own + rest, 1u)) << 1u, ONE);
          reliability[slot] = r - (r >> {{ rate_shift }}u) + (posterior >> {{ rate_shift }}u);
          below = own + rest;
        }
      }
    }
  }
  workgroupBarrier();
  if (t < 24u) { draft[RELIABILITIES + t] = reliability[t]; }
}
