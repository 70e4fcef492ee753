//! Argmax and hash of logits rows, by slices.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use super::source::{RenderError, Shader, render};
use minijinja::context;

/// Slices of a row, of which the last ones may be empty.
pub const SLICES: u32 = 64;
/// Fewest ids of a slice that is not the last: one for each thread.
pub(super) const SLICE_IDS_MIN: u32 = 256;

/// `Params` of the shader.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[allow(missing_docs, reason = "documented in the shader")]
pub struct Params {
    pub len: u32,
    pub hash: u32,
}

/// Workgroups over `rows` rows of `len` logits: one for each slice that holds something.
pub fn grid(len: u32, rows: u32) -> [u32; 3] {
    [len.div_ceil(len.div_ceil(SLICES).max(SLICE_IDS_MIN)), rows, 1]
}

pub(super) fn shader() -> Result<Shader, RenderError> {
    render("choose".into(), &["control", "broken", "largest", "mix", "choose"], context! {}, Vec::new())
}

/// What the kernel leaves of a row, four words a slice: other kernels that choose are compared with it.
#[cfg(test)]
pub(super) fn slices(row: &[f32]) -> Vec<[u32; 4]> {
    let words = |slice: twin::Slice| {
        let (value, id) = slice.best.unwrap_or((f32::MIN, u32::MAX));
        [value.to_bits(), id, slice.hash, value.to_bits()]
    };
    twin::slices(row, true).into_iter().map(words).collect()
}
