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

const POSITIONS = {{ positions }}u;
const KEPT = {{ kept }}u;
const CANDIDATES = {{ candidates }}u;
const BRANCHES = {{ branches }}u;
const NODES = {{ nodes_max }}u;
const RELIABILITIES = {{ reliability_word }}u;
const RECORDS = {{ nodes_word }}u;
const RECORD = {{ node_words }}u;
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
  let depths = min(workgroupUniformLoad(&context_len) - committed - 1u, DEPTH_MAX);
  let groups = root / POSITIONS - params.first / POSITIONS + 1u;
  for (var i = t; i < min(groups * KEPT, CANDIDATES); i += 256u) { push(matches[i]); }
  workgroupBarrier();
  let branches = rank(t, BRANCHES);
  workgroupBarrier();
  if (t == 0u) { atomicStore(&list_len, 0u); }
  if (t < branches) { load_branch(t, root); }
  workgroupBarrier();
  for (var depth = 0u; depth < DEPTH_MAX; depth++) {
    if (t < branches) { find_alike(t, depth); }
    workgroupBarrier();
  }
  for (var i = t; i < branches * DEPTH_MAX; i += 256u) {
    let b = i / DEPTH_MAX;
    let depth = i % DEPTH_MAX;
    if (first_alike[i] == b && branch_tokens[i] != SEPARATOR) {
      let above = select(0u, first_alike[max(i, 1u) - 1u], depth > 0u);
      conditional[i] = conditional_of(count(branches, above, b, depth));
    }
  }
  workgroupBarrier();
  for (var i = t; i < branches * DEPTH_MAX; i += 256u) {
    let b = i / DEPTH_MAX;
    let depth = i % DEPTH_MAX;
    node_of[i] = 0u;
    if (first_alike[i] == b && branch_tokens[i] != SEPARATOR && depth < depths) {
      var probability = ONE;
      for (var d = 0u; d <= depth; d++) {
        probability = (probability * conditional[first_alike[b * DEPTH_MAX + d] * DEPTH_MAX + d]) >> 16u;
      }
      if (probability > 0u) { push((probability << 9u) | ((7u - depth) << 6u) | (63u - b)); }
    }
  }
  workgroupBarrier();
  let nodes = 1u + rank(t, NODES - 1u);
  workgroupBarrier();
  if (t > 0u && t < nodes) {
    let place = place_of(chosen[t - 1u]);
    node_of[place.x * DEPTH_MAX + place.y] = t;
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
