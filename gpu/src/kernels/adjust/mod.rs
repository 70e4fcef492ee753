//! Logit bias and penalties in place, then maxima and hashes as the choice kernel leaves them.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use super::source::{RenderError, Shader, render, sampling_words, step_words};
use minijinja::context;
use minijinja::value::merge_maps;

/// Ids whose changes are marked at once: a slice of the largest published vocabulary takes two tiles, and
/// with what finds the maximum they fit the smallest workgroup memory.
pub(super) const TILE: u32 = 3072;

/// `Params` of the shader.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[allow(missing_docs, reason = "documented in the shader")]
pub struct Params {
    pub len: u32,
    pub hash: u32,
    pub form: u32,
}

pub(super) fn shader() -> Result<Shader, RenderError> {
    render(
        "adjust".into(),
        &["control", "step_words", "sampling_words", "broken", "largest", "mix", "last_position", "adjust"],
        context! { tile => TILE, ..merge_maps([sampling_words(), step_words()]) },
        Vec::new(),
    )
}
