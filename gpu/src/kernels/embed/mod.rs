//! Embedding: token ids → rows of the table, read from its resident planes.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use fanlight_messages::layout::{ResidentFormat, SlabLayout};
use minijinja::context;

use crate::shader::{
    Control, Declared, Planes, RenderError, Rows, Shader, Slice, Tokens, bindings, format, record, render,
    templates,
};

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

record! {
    /// `Params` of the shader.
    pub struct Params {
        pub first_row: u32,
        pub rows: u32,
        pub output_len: u32,
        pub blocks: u32,
        pub scale: f32,
    }
}

bindings! {
    /// What the kernel binds.
    pub struct Bindings<'a> {
        /// Rows of the table.
        pub table: Planes<'a>,
        /// Tokens of the batch.
        pub tokens: Slice<'a, Tokens>,
        /// Embeddings.
        pub output: Slice<'a, Rows>,
        /// The control block.
        pub control: Slice<'a, Control>,
    }
}

impl Variant {
    /// Workgroups: one per token.
    pub fn groups(tokens: u32) -> [u32; 3] {
        [tokens, 1, 1]
    }
}

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        render(
            format!("embed {:?} {}", self.format, self.layout.blocks * 32),
            templates!["embed.wgsl.j2"],
            context! {
                packed_dot => self.packed_dot,
                ..format::context(self.format)
            },
            format::weight_constants(self.format, self.layout),
        )
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        let of = |(format, layout, packed_dot)| Self { format, layout, packed_dot };
        format::tested().into_iter().map(of).collect()
    }
}
