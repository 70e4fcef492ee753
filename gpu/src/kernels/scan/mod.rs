//! Matches of the context's end in the history.

use super::source::{RenderError, Shader, render};
use fanlight_messages::draft::{MEMORY_TOKENS, ORDERS, SCAN_KEPT, SCAN_POSITIONS};
use minijinja::context;

/// `Params` of the shader, and of the draft kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[allow(missing_docs, reason = "documented in the shader")]
pub struct Params {
    pub first: u32,
    pub width: u32,
}

/// Workgroups that search from index `first` to the token at position `last`.
pub fn groups(first: u32, last: u32) -> [u32; 3] {
    [(MEMORY_TOKENS + last) / SCAN_POSITIONS - first / SCAN_POSITIONS + 1, 1, 1]
}

pub(super) fn shader() -> Result<Shader, RenderError> {
    render(
        "scan".into(),
        &["control", "scan"],
        context! {
            memory_tokens => MEMORY_TOKENS, orders => ORDERS, positions => SCAN_POSITIONS, kept => SCAN_KEPT,
        },
        Vec::new(),
    )
}
