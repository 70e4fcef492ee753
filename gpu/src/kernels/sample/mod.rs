//! The draw: the best candidate of each slice of a logits row under noise that belongs to its position.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use super::source::{RenderError, Shader, render, sampling_words, step_words};
use minijinja::value::merge_maps;

/// `Params` of the shader.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[allow(missing_docs, reason = "documented in the shader")]
pub struct Params {
    pub len: u32,
    pub form: u32,
    pub passes: u32,
    pub stage: u32,
}

pub(super) fn shader() -> Result<Shader, RenderError> {
    let parts = [
        "control",
        "step_words",
        "sampling_words",
        "wide",
        "row_values",
        "select",
        "last_position",
        "largest",
        "noise",
        "sample",
    ];
    render("sample".into(), &parts, merge_maps([sampling_words(), step_words()]), Vec::new())
}
