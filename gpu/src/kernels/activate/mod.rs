//! Gate function times up projection, or of the up projection alone, quantised.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use fanlight_messages::layout::SlabLayout;
use fanlight_messages::program::GateFunction;
use minijinja::context;

use crate::shader::{
    Control, Declared, Quantised, RenderError, Rows, Shader, Slice, Vectors, bindings, format, record,
    render, row_groups, templates,
};

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

record! {
    /// `Params` of the shader.
    pub struct Params {
        pub len: u32,
        pub bias_offset: u32,
        pub has_bias: u32,
    }
}

bindings! {
    /// What the kernel binds.
    pub struct Bindings<'a> {
        /// gate|up rows, or up rows.
        pub rows: Slice<'a, Rows>,
        /// Biases.
        pub vectors: Slice<'a, Vectors>,
        /// The quantised row.
        pub output: Quantised<'a>,
        /// The control block.
        pub control: Slice<'a, Control>,
    }
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
}

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        let function = if self.gelu { "gelu" } else { "silu" };
        render(
            format!(
                "activate {function}{} {}",
                if self.gated { "" } else { " ungated" },
                self.layout.blocks * 32
            ),
            templates!["activate.wgsl.j2"],
            context! { keeps_values => self.keeps_values, gated => self.gated, function },
            format::slab_constants(self.layout),
        )
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        let flags = [true, false].into_iter().flat_map(|gelu| [(gelu, true), (gelu, false)]);
        let flags = flags.flat_map(|(gelu, gated)| [(gelu, gated, true), (gelu, gated, false)]);
        let of = |layout| {
            let of = move |(gelu, gated, keeps_values)| Self { layout, gelu, gated, keeps_values };
            flags.clone().map(of)
        };
        format::tested_layouts().into_iter().flat_map(of).collect()
    }
}
