// Words of the control, draft and history buffers, as messages/src/control.rs and messages/src/draft.rs draw
// them.
const COMMITTED = 0u;
const LIVE = 1u;
const CONTEXT = 2u;
const END = 3u;
const PENDING = 4u;
const TOKENS_LEFT = 5u;
const POISON = 6u;
const RING_HEAD = 7u;
const HASH = 8u;
const PATH = 9u;
const STEPS = 11u;
const MEMORY = {{ memory_tokens }}u;
const DEPTH_MAX = {{ depth_max }}u;
const EXPECTED = {{ expected_word }}u;
const VISITED = {{ visited_word }}u;
const CHOICES = {{ choices_word }}u;
const VISITED_NODES = {{ path_word }}u;
const STRIDE = {{ ancestor_stride }}u;    // of the ancestor table
