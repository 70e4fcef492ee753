// The control block (messages/src/control.rs draws it). Read-only loads of it are uniform.
struct Control {
  committed: u32,   // positions in the cache
  live: u32,        // nodes of this step, or prompt tokens of this batch
  context: u32,
  end: u32,         // 0 while running
  pending: u32,
  tokens_left: u32,
  poison: u32,
  ring_head: u32,
  hash: u32,
  path_low: u32,    // accepted nodes of the last step at depths 1..4, a byte each
  path_high: u32,   // and 5..8
  steps: u32,
};
