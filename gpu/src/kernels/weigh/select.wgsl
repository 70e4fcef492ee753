// The cuts of top-k and top-p, digit by digit from the highest: a pass adds the weights of the candidates by
// the next digit of their keys, and whatever comes behind it finds the digit at which the wanted weight is
// reached. Top-k counts candidates; top-p adds their masses. messages/src/sampling.rs draws the buffer.
@group(0) @binding(5) var<storage, read_write> selection: array<atomic<u32>>;

const BINS = {{ bins }}u;
const ROW_WORDS = {{ row_words }}u;
const STATE_WORDS = {{ state_words }}u;
const HISTOGRAMS = {{ histograms }}u;
const HISTOGRAM = {{ histogram_word }}u;
const COUNT = 0u;
const MASS = 1u;
const LAST_LEVEL = 2u;
const EVERY = 0xffffffffu;

// A candidate stays when its key is above `cut`, or is one of the first `equal` ones at it.
struct Selection {
  prefix: u32,           // bits of the next cut that are known
  wanted: vec2<u32>,     // weight left to reach
  cut: u32,
  equal: u32,
  is_whole: u32,         // 1 when all candidates at the cut stay
};

var<workgroup> thread_weights: array<vec2<u32>, 256>;
var<workgroup> group_weights: array<vec2<u32>, 16>;
var<workgroup> found: Selection;

fn everything() -> Selection { return Selection(0u, vec2<u32>(sampling[TOP_K], 0u), 0u, EVERY, 1u); }

fn shift_of(level: u32) -> u32 { return select(select(21u, 10u, level == 1u), 0u, level == LAST_LEVEL); }

// Whether a key has the digits that are known before a level.
fn has_prefix(key: u32, prefix: u32, level: u32) -> bool {
  if (level == 0u) { return true; }
  let known = shift_of(level - 1u);
  return (key >> known) == (prefix >> known);
}
// Eleven bits, eleven and ten.
fn digit_of(key: u32, level: u32) -> u32 {
  return (key >> shift_of(level)) & select(BINS - 1u, BINS / 2u - 1u, level == LAST_LEVEL);
}

fn state_word(row: u32, pass_index: u32) -> u32 { return row * ROW_WORDS + pass_index * STATE_WORDS; }
fn histogram_word(row: u32, pass_index: u32) -> u32 {
  return row * ROW_WORDS + HISTOGRAM + (pass_index % HISTOGRAMS) * 2u * BINS;
}
fn load_state(at: u32) -> Selection {
  return Selection(
    atomicLoad(&selection[at]), vec2<u32>(atomicLoad(&selection[at + 1u]), atomicLoad(&selection[at + 2u])),
    atomicLoad(&selection[at + 3u]), atomicLoad(&selection[at + 4u]), atomicLoad(&selection[at + 5u]));
}
fn store_state(at: u32, s: Selection) {
  atomicStore(&selection[at], s.prefix);
  atomicStore(&selection[at + 1u], s.wanted.x);
  atomicStore(&selection[at + 2u], s.wanted.y);
  atomicStore(&selection[at + 3u], s.cut);
  atomicStore(&selection[at + 4u], s.equal);
  atomicStore(&selection[at + 5u], s.is_whole);
}
fn weight_at(at: u32) -> vec2<u32> {
  return vec2<u32>(atomicLoad(&selection[at]), atomicLoad(&selection[at + 1u]));
}

// The fewest candidates of one mass that reach a weight; there are fewer than 2^24 in a row.
fn fewest(wanted: vec2<u32>, one: u32) -> u32 {
  var below = 0u;
  for (var bit = 0u; bit < 24u; bit++) {
    let more = below + (0x800000u >> bit);
    if (is_less(mul_wide(more, one), wanted)) { below = more; }
  }
  return below + 1u;
}

// The cut once its last digit is known; `weight` is that of all candidates at it.
fn close(s: Selection, weight: vec2<u32>, stage: u32, largest: f32) -> Selection {
  var closed = Selection(0u, vec2<u32>(0u), s.prefix, s.wanted.x, u32(s.wanted.x == weight.x));
  if (stage == MASS) {
    let one = mass(value_of(s.prefix), largest);
    closed.equal = fewest(s.wanted, one);
    closed.is_whole = u32(!is_less(mul_wide(closed.equal, one), weight));
    if (s.prefix == s.cut) { closed.is_whole = u32(closed.equal == s.equal) & s.is_whole; }
  }
  return closed;
}

// Leaves in `found` what a pass has found.
fn resolve(row: u32, t: u32, pass_index: u32, stage: u32, level: u32, largest: f32) {
  let bins = histogram_word(row, pass_index);
  // Threads take eight bins each, from the highest down.
  let highest = BINS - 1u - 8u * t;
  var own = vec2<u32>(0u);
  for (var k = 0u; k < 8u; k++) { own = add_wide(own, weight_at(bins + 2u * (highest - k))); }
  thread_weights[t] = own;
  workgroupBarrier();
  if (t < 16u) {
    var sum = vec2<u32>(0u);
    for (var k = 0u; k < 16u; k++) { sum = add_wide(sum, thread_weights[t * 16u + k]); }
    group_weights[t] = sum;
  }
  if (t == 0u) { found = everything(); }
  workgroupBarrier();
  var before = vec2<u32>(0u);
  var all = vec2<u32>(0u);
  for (var k = 0u; k < 16u; k++) {
    if (k < t / 16u) { before = add_wide(before, group_weights[k]); }
    all = add_wide(all, group_weights[k]);
  }
  for (var k = t & ~15u; k < t; k++) { before = add_wide(before, thread_weights[k]); }
  var s = load_state(state_word(row, pass_index));
  if (stage == MASS && level == 0u) {
    // ceil(p · all), at least 1: one candidate always stays.
    let low = mul_wide(all.x, sampling[TOP_P]);
    let part = add_wide(mul_wide(all.y, sampling[TOP_P]), vec2<u32>(low.y, 0u));
    s.wanted = add_wide(part, vec2<u32>(u32(low.x != 0u || (part.x | part.y) == 0u), 0u));
  }
  if (is_less(before, s.wanted) && !is_less(add_wide(before, own), s.wanted)) {
    for (var k = 0u; k < 8u; k++) {
      let weight = weight_at(bins + 2u * (highest - k));
      let next = add_wide(before, weight);
      if (is_less(before, s.wanted) && !is_less(next, s.wanted)) {
        var reached = s;
        reached.prefix = s.prefix | ((highest - k) << shift_of(level));
        reached.wanted = sub_wide(s.wanted, before);
        if (level == LAST_LEVEL) { reached = close(reached, weight, stage, largest); }
        found = reached;
      }
      before = next;
    }
  }
  workgroupBarrier();
}
