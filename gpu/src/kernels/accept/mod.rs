//! Commits a step in the control buffer.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use super::source::{RenderError, Shader, render};
use fanlight_messages::control::{END_IDS_WORD, HASHES_WORD, RECORDS, RECORDS_WORD, RING_LEN, RING_WORD};
use fanlight_messages::draft::{
    ANCESTOR_STRIDE, CHOICES_WORD, DEPTH_MAX, EXPECTED_WORD, MEMORY_TOKENS, PATH_WORD, VISITED_WORD,
};
use minijinja::context;

/// What a step was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Form {
    /// The last batch of a prompt: one row of logits, any fault counts.
    Prompt = 0,
    /// One token.
    Plain = 1,
    /// A draft tree.
    Tree = 2,
}

/// `Params` of the shader.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[allow(missing_docs, reason = "documented in the shader")]
pub struct Params {
    pub form: u32,
}

pub(super) fn shader() -> Result<Shader, RenderError> {
    render(
        "accept".into(),
        &["accept"],
        context! {
            end_ids_word => END_IDS_WORD, ring_word => RING_WORD, ring_len => RING_LEN,
            hashes_word => HASHES_WORD, records_word => RECORDS_WORD, records => RECORDS,
            memory_tokens => MEMORY_TOKENS,
            expected_word => EXPECTED_WORD, visited_word => VISITED_WORD, choices_word => CHOICES_WORD,
            path_word => PATH_WORD, depth_max => DEPTH_MAX, ancestor_stride => ANCESTOR_STRIDE,
        },
        Vec::new(),
    )
}
