//! Argmax and hash of logits rows, by slices.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use super::source::{RenderError, Shader, render};
use minijinja::context;

/// Slices of a row.
pub const SLICES: u32 = 64;

/// `Params` of the shader.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[allow(missing_docs, reason = "documented in the shader")]
pub struct Params {
    pub len: u32,
    pub hash: u32,
}

pub(super) fn shader() -> Result<Shader, RenderError> {
    render("choose".into(), &["control", "choose"], context! {}, Vec::new())
}
