//! The next draft tree, from the matches that the scan left.

use super::source::{RenderError, Shader, render, step_words};
use fanlight_messages::draft::{
    FLOOR, MATCHES_MAX, NODE_WORDS, NODES_MAX, NODES_WORD, RATE_SHIFT, RELIABILITY_WORD, SCAN_GROUPS_MAX,
    SCAN_KEPT, SCAN_POSITIONS,
};
use minijinja::context;

pub(super) fn shader() -> Result<Shader, RenderError> {
    render(
        "draft".into(),
        &["step_words", "draft", "draft_learn", "draft_trie"],
        context! {
            positions => SCAN_POSITIONS, kept => SCAN_KEPT, candidates => SCAN_GROUPS_MAX * SCAN_KEPT,
            branches => MATCHES_MAX, nodes_max => NODES_MAX, reliability_word => RELIABILITY_WORD,
            nodes_word => NODES_WORD, node_words => NODE_WORDS, rate_shift => RATE_SHIFT, floor => FLOOR,
            ..step_words()
        },
        Vec::new(),
    )
}
