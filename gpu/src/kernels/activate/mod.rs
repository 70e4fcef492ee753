//! Gate function times up projection, or of the up projection alone, quantised.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use super::source::{RenderError, Shader, render};
use super::{GateFunction, SlabLayout, format};
use minijinja::context;

/// One pipeline per width and function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Layout of the output row.
    pub layout: SlabLayout,
    /// The gate function, as an index of [`GateFunction`]: it hashes.
    pub gelu: bool,
    /// The row is gate|up, else up alone.
    pub gated: bool,
    /// Also write the f32 elements.
    pub keeps_values: bool,
}

/// `Params` of the shader.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[allow(missing_docs, reason = "documented in the shader")]
pub struct Params {
    pub len: u32,
    pub bias_offset: u32,
    pub has_bias: u32,
}

impl Variant {
    /// The variant of a program's op.
    pub fn new(layout: SlabLayout, function: GateFunction, gated: bool, keeps_values: bool) -> Self {
        Self { layout, gelu: function == GateFunction::GeluTanh, gated, keeps_values }
    }

    /// Workgroups for `tokens` rows.
    pub fn groups(self, tokens: u32) -> [u32; 3] {
        [row_groups(self.layout), tokens, 1]
    }

    pub(super) fn shader(self) -> Result<Shader, RenderError> {
        let function = if self.gelu { "gelu" } else { "silu" };
        render(
            format!(
                "activate {function}{} {}",
                if self.gated { "" } else { " ungated" },
                self.layout.blocks * 32
            ),
            &["control", "activate", "broken", "quantise"],
            context! { keeps_values => self.keeps_values, gated => self.gated, function },
            format::slab_constants(self.layout),
        )
    }
}

/// Workgroups of 64 threads, eight elements each, that cover a row with its padding.
pub(super) fn row_groups(layout: SlabLayout) -> u32 {
    (layout.padded_blocks() * 4).div_ceil(64)
}
