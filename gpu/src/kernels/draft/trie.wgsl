// The best matches, their continuations as a trie, and the nodes that come out of it.
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
  for (var depth = 0u; depth < DEPTH_MAX; depth++) {
    let at = start + depth;
    var token = SEPARATOR;
    if (!is_over) {
      if (at > root) { token = branch_tokens[b * DEPTH_MAX + at - root - 1u]; }
      else { token = history[at]; }
    }
    is_over = is_over || token == SEPARATOR;
    branch_tokens[b * DEPTH_MAX + depth] = token;
  }
}

fn find_alike(b: u32, depth: u32) {
  let at = b * DEPTH_MAX + depth;
  var first = b;
  for (var k = 0u; k < b; k++) {
    let other = (b - 1u - k) * DEPTH_MAX + depth;
    let same_above = depth == 0u || first_alike[max(other, 1u) - 1u] == first_alike[max(at, 1u) - 1u];
    if (same_above && branch_tokens[other] == branch_tokens[at]) { first = b - 1u - k; }
  }
  first_alike[at] = first;
}

// What the branches say that come through (`above`, depth - 1); `own` is the child whose share is counted.
fn count(branches: u32, above: u32, own: u32, depth: u32) -> Counts {
  var counts = Counts(vec2<u32>(0u), vec2<u32>(0u), 0u);
  var leader = SEPARATOR;
  for (var b = 0u; b < branches; b++) {
    let at = b * DEPTH_MAX + depth;
    let is_sibling = depth == 0u || first_alike[max(at, 1u) - 1u] == above;
    if (is_sibling && branch_tokens[at] != SEPARATOR) {
      let first = first_alike[at];
      leader = select(leader, first, leader == SEPARATOR);
      let order = min(lens[b] + depth, DEPTH_MAX);
      let ones = up_to(order);
      counts.onward += ones;
      counts.through += select(vec2<u32>(0u), ones, first == own);
      counts.mixed |= select(0u, (1u << order) - 1u, first != leader);
    }
  }
  return counts;
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
    ancestors[n * STRIDE + d + 1u] = node_of[first_alike[b * DEPTH_MAX + d] * DEPTH_MAX + d];
  }
  ancestors[n * STRIDE + 32u] = depth + 1u;
  var above = 0u;
  var parent = 0u;
  if (depth > 0u) {
    above = first_alike[b * DEPTH_MAX + depth - 1u];
    parent = node_of[above * DEPTH_MAX + depth - 1u];
  }
  let counts = count(branches, above, b, depth);
  tokens[n] = branch_tokens[b * DEPTH_MAX + depth];
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
