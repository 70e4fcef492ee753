//! From the q|k|v row to scaled queries and cache rows.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use fanlight_messages::plan::KvFormat;
use minijinja::context;

use crate::shader::{
    Ancestors, Control, Declared, Keys, RenderError, Rope, Rows, Shader, Slice, Values, Vectors, bindings,
    kv_name, record, render, templates,
};

/// One pipeline per head length, cache format and place of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Elements per head.
    pub head_len: u32,
    /// Cache format.
    pub kv_format: KvFormat,
    /// Rows are nodes of a draft tree; the last step's accepted rows are copied to the cache.
    pub tree: bool,
}

/// There is a bias.
pub const BIAS: u32 = 1;
/// Query heads are normalised.
pub const QUERY_NORM: u32 = 2;
/// Key heads are normalised.
pub const KEY_NORM: u32 = 4;
/// Pairs are neighbours.
pub const ADJACENT: u32 = 8;
/// This dispatch writes the queries too.
pub const WRITES_QUERIES: u32 = 16;
/// Norms span all heads of q or k.
pub const ROW_NORM: u32 = 32;
/// Rows of the position table end in the factor of the queries.
pub const QUERY_FACTOR: u32 = 64;

record! {
    /// `Params` of the shader.
    pub struct Params {
        pub query_heads: u32,
        pub kv_heads: u32,
        pub group_first: u32,
        pub group_heads: u32,
        pub input_len: u32,
        pub bias_offset: u32,
        pub query_norm_offset: u32,
        pub key_norm_offset: u32,
        pub flags: u32,
        pub pairs: u32,
        pub cache_rows: u32,
        pub epsilon: f32,
        pub query_scale: f32,
    }
}

bindings! {
    /// What the kernel binds.
    pub struct Bindings<'a> {
        /// q|k|v rows.
        pub input: Slice<'a, Rows>,
        /// Rotations by position.
        pub rope: Slice<'a, Rope>,
        /// Biases and weights of norms.
        pub vectors: Slice<'a, Vectors>,
        /// Scaled queries.
        pub query: Slice<'a, Rows>,
        /// Keys of the head group.
        pub keys: Slice<'a, Keys>,
        /// Values of the head group.
        pub values: Slice<'a, Values>,
        /// Ancestors of the nodes, for trees.
        pub ancestors: Option<Slice<'a, Ancestors>>,
        /// The control block.
        pub control: Slice<'a, Control>,
    }
}

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        render(
            format!("heads{} {} {:?}", if self.tree { " tree" } else { "" }, self.head_len, self.kv_format),
            templates!["heads.wgsl.j2"],
            context! {
                head_len => self.head_len,
                group => (self.head_len / 2).next_multiple_of(32),
                kv => kv_name(self.kv_format),
                tree => self.tree,
            },
            Vec::new(),
        )
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        let of = |(head_len, kv_format)| [true, false].map(|tree| Self { head_len, kv_format, tree });
        crate::shader::format::tested_heads().into_iter().flat_map(of).collect()
    }
}
