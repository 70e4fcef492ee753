// The next draft tree: learns from the last step's walk, merges the continuations of the best matches into a
// trie, weighs its nodes by mixing match lengths, and leaves the most probable nodes in falling order. One
// workgroup; integers only, so that the drafter crate gives the same tree. messages/src/draft.rs draws the
// buffers; the drafter's merge module tells the formulas.
struct Params {
  first: u32,   // first index that is searched
  width: u32,   // nodes that this step verifies, the root included
};
@group(0) @binding(0) var<storage, read> matches: array<u32>;
@group(0) @binding(1) var<storage, read_write> tokens: array<u32>;
@group(0) @binding(2) var<storage, read_write> draft: array<u32>;
@group(0) @binding(3) var<storage, read> history: array<u32>;
@group(0) @binding(4) var<storage, read_write> ancestors: array<u32>;
@group(0) @binding(7) var<storage, read_write> control: array<u32>;
@group(0) @binding(8) var<uniform> params: Params;

const COMMITTED = 0u;
const LIVE = 1u;
const CONTEXT = 2u;
const END = 3u;
const MEMORY = {{ memory_tokens }}u;
const POSITIONS = {{ positions }}u;
const KEPT = {{ kept }}u;
const CANDIDATES = {{ candidates }}u;
const BRANCHES = {{ branches }}u;
const DEPTHS = {{ depth_max }}u;
const NODES = {{ nodes_max }}u;
const EXPECTED = {{ expected_word }}u;
const VISITED = {{ visited_word }}u;
const CHOICES = {{ choices_word }}u;
const VISITED_NODES = {{ path_word }}u;
const RELIABILITIES = {{ reliability_word }}u;
const RECORDS = {{ nodes_word }}u;
const RECORD = {{ node_words }}u;
const STRIDE = {{ ancestor_stride }}u;
const SEPARATOR = 0xffffffffu;
const ONE = 0xffffu;

var<workgroup> has_ended: u32;
var<workgroup> committed_len: u32;
var<workgroup> context_len: u32;
var<workgroup> visited: u32;
var<workgroup> child_of: array<u32, 9>;            // drafted child that was chosen at each visit, 0 for none
var<workgroup> reliability: array<u32, 24>;
var<workgroup> seen_slot: array<u32, 72>;          // [visit][order] its reliability, SEPARATOR for none
var<workgroup> seen_share: array<u32, 72>;         // its matches that went on with the choice, 0.16
var<workgroup> list: array<u32, {{ candidates }}>; // match keys, then node keys
var<workgroup> list_len: atomic<u32>;
var<workgroup> chosen: array<u32, {{ branches }}>; // matches, then nodes, best first
var<workgroup> lens: array<u32, {{ branches }}>;
var<workgroup> branch_tokens: array<u32, {{ branches * depth_max }}>;  // [branch][depth]
var<workgroup> first_alike: array<u32, {{ branches * depth_max }}>;    // first branch alike down to the depth
var<workgroup> conditional: array<u32, {{ branches * depth_max }}>;
var<workgroup> node_of: array<u32, {{ branches * depth_max }}>;        // node of a branch's depth
var<workgroup> probabilities: array<u32, {{ nodes_max }}>;

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

// What the branches say that come through (`above`, depth - 1); `own` is the child whose share is counted.
fn count(branches: u32, above: u32, own: u32, depth: u32) -> Counts {
  var counts = Counts(vec2<u32>(0u), vec2<u32>(0u), 0u);
  var leader = SEPARATOR;
  for (var b = 0u; b < branches; b++) {
    let at = b * DEPTHS + depth;
    let is_sibling = depth == 0u || first_alike[max(at, 1u) - 1u] == above;
    if (is_sibling && branch_tokens[at] != SEPARATOR) {
      let first = first_alike[at];
      leader = select(leader, first, leader == SEPARATOR);
      let order = min(lens[b] + depth, DEPTHS);
      let ones = up_to(order);
      counts.onward += ones;
      counts.through += select(vec2<u32>(0u), ones, first == own);
      counts.mixed |= select(0u, (1u << order) - 1u, first != leader);
    }
  }
  return counts;
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

// Puts the `keep` largest keys of the list into `chosen`, in order, and gives how many there are.
fn rank(t: u32, keep: u32) -> u32 {
  let count = atomicLoad(&list_len);
  for (var i = t; i < count; i += 256u) {
    let key = list[i];
    var above = 0u;
    for (var j = 0u; j < count; j++) { above += u32(list[j] > key); }
    if (above < keep) { chosen[above] = key; }
  }
  return min(count, keep);
}

fn push(key: u32) {
  if (key != 0u) { list[atomicAdd(&list_len, 1u)] = key; }
}

// The tokens that followed a match; past the end of the context a continuation repeats itself.
fn load_branch(b: u32, root: u32) {
  lens[b] = chosen[b] >> 16u;
  let start = (chosen[b] & 0xffffu) + 1u;
  var is_over = false;
  for (var depth = 0u; depth < DEPTHS; depth++) {
    let at = start + depth;
    var token = SEPARATOR;
    if (!is_over) {
      if (at > root) { token = branch_tokens[b * DEPTHS + at - root - 1u]; }
      else { token = history[at]; }
    }
    is_over = is_over || token == SEPARATOR;
    branch_tokens[b * DEPTHS + depth] = token;
  }
}

fn find_alike(b: u32, depth: u32) {
  let at = b * DEPTHS + depth;
  var first = b;
  for (var k = 0u; k < b; k++) {
    let other = (b - 1u - k) * DEPTHS + depth;
    let same_above = depth == 0u || first_alike[max(other, 1u) - 1u] == first_alike[max(at, 1u) - 1u];
    if (same_above && branch_tokens[other] == branch_tokens[at]) { first = b - 1u - k; }
  }
  first_alike[at] = first;
}

// The branch and depth that a node key names.
fn place_of(key: u32) -> vec2<u32> { return vec2<u32>(63u - (key & 63u), 7u - ((key >> 6u) & 7u)); }

fn emit_node(n: u32, branches: u32, depths: u32) {
  let key = chosen[n - 1u];
  let place = place_of(key);
  let b = place.x;
  let depth = place.y;
  let at = RECORDS + n * RECORD;
  ancestors[n * STRIDE] = 0u;
  for (var d = 0u; d <= depth; d++) {
    ancestors[n * STRIDE + d + 1u] = node_of[first_alike[b * DEPTHS + d] * DEPTHS + d];
  }
  ancestors[n * STRIDE + 32u] = depth + 1u;
  var above = 0u;
  var parent = 0u;
  if (depth > 0u) {
    above = first_alike[b * DEPTHS + depth - 1u];
    parent = node_of[above * DEPTHS + depth - 1u];
  }
  let counts = count(branches, above, b, depth);
  tokens[n] = branch_tokens[b * DEPTHS + depth];
  draft[at] = parent;
  draft[at + 1u] = key >> 9u;
  draft[at + 2u] = counts.through.x;
  draft[at + 3u] = counts.through.y;
  probabilities[n] = key >> 9u;
  describe_children(at, branches, b, depth + 1u, depths);
}

// What comes after a node, for learning.
fn describe_children(at: u32, branches: u32, above: u32, depth: u32, depths: u32) {
  var counts = Counts(vec2<u32>(0u), vec2<u32>(0u), 0u);
  if (depth < depths) { counts = count(branches, above, SEPARATOR, depth); }
  draft[at + 4u] = counts.onward.x;
  draft[at + 5u] = counts.onward.y;
  draft[at + 6u] = counts.mixed;
}

fn finish(nodes: u32) {
  draft[0] = nodes;
  draft[1] = select(0u, lens[0], nodes > 1u);
  draft[VISITED] = 0u;
  var sum = 0u;
  var step = 0u;
  for (var n = 1u; n < NODES; n++) {
    if (n < nodes) { sum += probabilities[n]; }
    if (n + 1u == 2u << step) {
      draft[EXPECTED + step] = sum;
      step++;
    }
  }
  control[LIVE] = min(nodes, params.width);
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) t: u32) {
  if (t == 0u) {
    has_ended = control[END];
    committed_len = control[COMMITTED];
    context_len = control[CONTEXT];
    visited = draft[VISITED];
    atomicStore(&list_len, 0u);
  }
  if (workgroupUniformLoad(&has_ended) != 0u) { return; }
  let committed = workgroupUniformLoad(&committed_len);
  learn(t);
  let root = MEMORY + committed;
  // A node at depth d sits at position committed + d, which must be inside the context.
  let depths = min(workgroupUniformLoad(&context_len) - committed - 1u, DEPTHS);
  let groups = root / POSITIONS - params.first / POSITIONS + 1u;
  for (var i = t; i < min(groups * KEPT, CANDIDATES); i += 256u) { push(matches[i]); }
  workgroupBarrier();
  let branches = rank(t, BRANCHES);
  workgroupBarrier();
  if (t == 0u) { atomicStore(&list_len, 0u); }
  if (t < branches) { load_branch(t, root); }
  workgroupBarrier();
  for (var depth = 0u; depth < DEPTHS; depth++) {
    if (t < branches) { find_alike(t, depth); }
    workgroupBarrier();
  }
  for (var i = t; i < branches * DEPTHS; i += 256u) {
    let b = i / DEPTHS;
    let depth = i % DEPTHS;
    if (first_alike[i] == b && branch_tokens[i] != SEPARATOR) {
      let above = select(0u, first_alike[max(i, 1u) - 1u], depth > 0u);
      conditional[i] = conditional_of(count(branches, above, b, depth));
    }
  }
  workgroupBarrier();
  for (var i = t; i < branches * DEPTHS; i += 256u) {
    let b = i / DEPTHS;
    let depth = i % DEPTHS;
    node_of[i] = 0u;
    if (first_alike[i] == b && branch_tokens[i] != SEPARATOR && depth < depths) {
      var probability = ONE;
      for (var d = 0u; d <= depth; d++) {
        probability = (probability * conditional[first_alike[b * DEPTHS + d] * DEPTHS + d]) >> 16u;
      }
      if (probability > 0u) { push((probability << 9u) | ((7u - depth) << 6u) | (63u - b)); }
    }
  }
  workgroupBarrier();
  let nodes = 1u + rank(t, NODES - 1u);
  workgroupBarrier();
  if (t > 0u && t < nodes) {
    let place = place_of(chosen[t - 1u]);
    node_of[place.x * DEPTHS + place.y] = t;
  }
  workgroupBarrier();
  if (t == 0u) {
    for (var d = 0u; d < STRIDE; d++) { ancestors[d] = 0u; }
    draft[RECORDS] = 0u;
    draft[RECORDS + 1u] = ONE;
    draft[RECORDS + 2u] = 0u;
    draft[RECORDS + 3u] = 0u;
    describe_children(RECORDS, branches, 0u, 0u, depths);
  }
  if (t > 0u && t < nodes) { emit_node(t, branches, depths); }
  workgroupBarrier();
  if (t == 0u) { finish(nodes); }
}
