//! The next draft tree, from the matches that the scan left.

use super::source::{RenderError, Shader, render};
use fanlight_messages::draft::{
    ANCESTOR_STRIDE, CHOICES_WORD, DEPTH_MAX, EXPECTED_WORD, FLOOR, MATCHES_MAX, MEMORY_TOKENS, NODE_WORDS,
    NODES_MAX, NODES_WORD, PATH_WORD, RATE_SHIFT, RELIABILITY_WORD, SCAN_GROUPS_MAX, SCAN_KEPT,
    SCAN_POSITIONS, VISITED_WORD,
};
use minijinja::context;

pub(super) fn shader() -> Result<Shader, RenderError> {
    render(
        "draft".into(),
        &["draft", "draft_learn", "draft_trie"],
        context! {
            memory_tokens => MEMORY_TOKENS, positions => SCAN_POSITIONS, kept => SCAN_KEPT,
            candidates => SCAN_GROUPS_MAX * SCAN_KEPT, branches => MATCHES_MAX, depth_max => DEPTH_MAX,
            nodes_max => NODES_MAX, expected_word => EXPECTED_WORD, visited_word => VISITED_WORD,
            choices_word => CHOICES_WORD, path_word => PATH_WORD, reliability_word => RELIABILITY_WORD,
            nodes_word => NODES_WORD, node_words => NODE_WORDS, rate_shift => RATE_SHIFT, floor => FLOOR,
            ancestor_stride => ANCESTOR_STRIDE,
        },
        Vec::new(),
    )
}
