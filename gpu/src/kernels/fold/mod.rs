//! Folds attention chunks left to right and quantises the row.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use super::activate::row_groups;
use super::source::{RenderError, Shader, render};
use super::{SlabLayout, attention, format};
use minijinja::context;

/// One pipeline per width and position rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Layout of the output row.
    pub layout: SlabLayout,
    /// Positions come from the ancestor table.
    pub tree: bool,
    /// Also write the f32 elements.
    pub keeps_values: bool,
}

/// `Params` of the shader.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[allow(missing_docs, reason = "documented in the shader")]
pub struct Params {
    pub len: u32,
    pub query_heads: u32,
    pub head_len: u32,
    pub window: u32,
    pub chunk_count: u32,
    pub first_node: u32,
}

impl Variant {
    /// Workgroups for `tokens` rows.
    pub fn groups(self, tokens: u32) -> [u32; 3] {
        [row_groups(self.layout), tokens, 1]
    }

    pub(super) fn shader(self) -> Result<Shader, RenderError> {
        let form = if self.tree { attention::Form::Tree } else { attention::Form::Split };
        render(
            format!("fold {} {}", form.name(), self.layout.blocks * 32),
            &["control", "zero", "fold", "broken", "quantise"],
            context! { keeps_values => self.keeps_values, form => form.name() },
            format::slab_constants(self.layout),
        )
    }
}
