//! Residual add, RMS norm (Zhang and Sennrich 2019) and quantisation of a row.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use fanlight_messages::layout::SlabLayout;
use minijinja::context;

use crate::shader::{
    Control, Declared, Quantised, RenderError, Rows, Shader, Slice, Vectors, bindings, format, record,
    render, templates,
};

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

record! {
    /// `Params` of the shader.
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
}

bindings! {
    /// What the kernel binds.
    pub struct Bindings<'a> {
        /// Rows that are added to.
        pub residual: Slice<'a, Rows>,
        /// What is added; anything without.
        pub delta: Slice<'a, Rows>,
        /// Weights of the norms.
        pub vectors: Slice<'a, Vectors>,
        /// The quantised row.
        pub output: Quantised<'a>,
        /// The control block.
        pub control: Slice<'a, Control>,
    }
}

/// Elements that one pass of a workgroup covers.
const PASS_LEN: u32 = 256 * 8;

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        let len = self.layout.padded_blocks() * 32;
        render(
            format!("normalize {}", self.layout.blocks * 32),
            templates!["normalize.wgsl.j2"],
            context! { keeps_values => self.keeps_values, passes => len.div_ceil(PASS_LEN) },
            format::slab_constants(self.layout),
        )
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        let of = |layout| [true, false].map(|keeps_values| Self { layout, keeps_values });
        format::tested_layouts().into_iter().flat_map(of).collect()
    }
}
