//! Embedding: token ids → rows of the table, read from its resident planes.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use super::source::{RenderError, Shader, render};
use super::{ResidentFormat, SlabLayout, format};
use minijinja::context;

/// One pipeline per format and width of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Format of the table.
    pub format: ResidentFormat,
    /// Its row layout.
    pub layout: SlabLayout,
    /// False where the device has no packed dot product.
    pub packed_dot: bool,
}

/// `Params` of the shader.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[allow(missing_docs, reason = "documented in the shader")]
pub struct Params {
    pub first_row: u32,
    pub rows: u32,
    pub output_len: u32,
    pub blocks: u32,
    pub scale: f32,
}

impl Variant {
    /// Workgroups: one per token.
    pub fn groups(tokens: u32) -> [u32; 3] {
        [tokens, 1, 1]
    }

    pub(super) fn shader(self) -> Result<Shader, RenderError> {
        let mut parts = format::weight_parts(self.format);
        parts.push("embed");
        render(
            format!("embed {:?} {}", self.format, self.layout.blocks * 32),
            &parts,
            context! {
                packed_dot => self.packed_dot,
                is_float => format::is_float(self.format),
                ..format::context(self.format)
            },
            format::weight_constants(self.format, self.layout),
        )
    }
}
