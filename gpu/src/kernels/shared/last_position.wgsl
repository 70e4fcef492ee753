// What a row of logits follows: the last batch of a prompt, a single token, or a node of a draft tree.
const PROMPT = 0u;
const TREE = 2u;

// Position of the last token that a row has seen.
fn last_position(row: u32) -> u32 {
  if (params.form == PROMPT) { return control.committed + control.live - 1u; }
  if (params.form == TREE) { return control.committed + ancestors[row * STRIDE + 32u]; }
  return control.committed;
}
