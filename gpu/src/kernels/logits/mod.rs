//! What a model does to the rows of its head before anything is chosen: a scale, a soft cap.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use super::source::{RenderError, Shader, render};
use minijinja::context;

/// `Params` of the shader.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[allow(missing_docs, reason = "documented in the shader")]
pub struct Params {
    pub len: u32,
    pub scale: f32,
    pub soft_cap: f32,
}

/// Workgroups over `rows` rows of `len` logits.
pub fn grid(len: u32, rows: u32) -> [u32; 3] {
    [len.div_ceil(256), rows, 1]
}

pub(super) fn shader() -> Result<Shader, RenderError> {
    render("logits".into(), &["control", "broken", "capped", "logits"], context! {}, Vec::new())
}
