//! Commits a step in the control buffer.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use super::source::{RenderError, Shader, render, step_words};
use fanlight_messages::control::{END_IDS_WORD, HASHES_WORD, RECORDS, RECORDS_WORD, RING_LEN, RING_WORD};
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

impl Form {
    /// All of them, in order of their numbers.
    pub const ALL: [Self; 3] = [Self::Prompt, Self::Plain, Self::Tree];
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
        &["step_words", "accept"],
        context! {
            end_ids_word => END_IDS_WORD, ring_word => RING_WORD, ring_len => RING_LEN,
            hashes_word => HASHES_WORD, records_word => RECORDS_WORD, records => RECORDS,
            ..step_words()
        },
        Vec::new(),
    )
}
