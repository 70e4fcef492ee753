//! Residual add, RMS norm (Zhang and Sennrich 2019) and quantisation of a row.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use super::source::{RenderError, Shader, render};
use super::{SlabLayout, format};
use minijinja::context;

/// One pipeline per width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Layout of the row.
    pub layout: SlabLayout,
    /// Also write the f32 elements.
    pub keeps_values: bool,
}

/// There is a delta.
pub const HAS_DELTA: u32 = 1;
/// The delta is normalised before it is added.
pub const POST_NORM: u32 = 2;
/// The delta has a bias.
pub const DELTA_BIAS: u32 = 4;
/// The output is the residual as it is, not normalised.
pub const PLAIN: u32 = 8;

/// `Params` of the shader.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[allow(missing_docs, reason = "documented in the shader")]
pub struct Params {
    pub len: u32,
    pub weight_offset: u32,
    pub post_norm_offset: u32,
    pub delta_bias_offset: u32,
    pub flags: u32,
    pub epsilon: f32,
    pub inverse_len: f32,
    pub delta_scale: f32,
}

/// Elements that one pass of a workgroup covers.
const PASS_LEN: u32 = 256 * 8;

impl Variant {
    pub(super) fn shader(self) -> Result<Shader, RenderError> {
        let len = self.layout.padded_blocks() * 32;
        render(
            format!("normalize {}", self.layout.blocks * 32),
            &["control", "normalize", "broken", "quantise"],
            context! { keeps_values => self.keeps_values, passes => len.div_ceil(PASS_LEN) },
            format::slab_constants(self.layout),
        )
    }
}
