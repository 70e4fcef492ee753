//! Softmax attention over 64-position chunks with an online, left-to-right fold (Milakov and Gimelshein
//! 2018), in three forms that agree in every bit.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use fanlight_messages::plan::KvFormat;
use minijinja::context;

use crate::shader::{
    Ancestors, Control, Declared, Keys, Partials, RenderError, Rows, Shader, Slice, Values, bindings,
    kv_name, record, render, templates,
};

/// How positions map to cache rows and who folds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// A workgroup per chunk; the fold kernel folds.
    Split,
    /// Like `Split`, with the last positions read from a draft tree's rows.
    Tree,
    /// A workgroup folds all chunks of its rows: prompts.
    Tiled,
}

impl Form {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Tree => "tree",
            Self::Tiled => "tiled",
        }
    }
}

/// One pipeline per head length, cache format, form and rows per workgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Elements per head.
    pub head_len: u32,
    /// Cache format.
    pub kv_format: KvFormat,
    /// Form.
    pub form: Form,
    /// Query rows per workgroup, at most [`QUERIES_MAX`].
    pub queries: u32,
}

/// Eight threads per query row reduce a chunk, so eight rows fill a workgroup of 64.
pub const QUERIES_MAX: u32 = 8;

record! {
    /// `Params` of the shader.
    pub struct Params {
        pub query_heads: u32,
        pub kv_heads: u32,
        pub group_first: u32,
        pub heads_per_kv: u32,
        pub cache_rows: u32,
        pub window: u32,
        pub chunk_count: u32,
        pub first_node: u32,
        pub soft_cap: f32,
    }
}

bindings! {
    /// What the kernel binds.
    pub struct Bindings<'a> {
        /// Scaled queries.
        pub query: Slice<'a, Rows>,
        /// Keys of the head group.
        pub keys: Slice<'a, Keys>,
        /// Values of the head group.
        pub values: Slice<'a, Values>,
        /// Ancestors of the nodes, for trees.
        pub ancestors: Option<Slice<'a, Ancestors>>,
        /// Chunks that the fold kernel folds.
        pub partials: Slice<'a, Partials>,
        /// The control block.
        pub control: Slice<'a, Control>,
    }
}

impl Variant {
    /// Rows per workgroup for `tokens` tokens of `heads_per_kv` query heads each.
    pub fn queries_for(tokens: u32, heads_per_kv: u32) -> u32 {
        (tokens * heads_per_kv).min(QUERIES_MAX)
    }

    /// Workgroups: KV heads × chunks × row tiles.
    pub fn groups(self, kv_heads: u32, chunks: u32, query_rows: u32) -> [u32; 3] {
        let chunks = if self.form == Form::Tiled { 1 } else { chunks };
        [kv_heads, chunks, query_rows.div_ceil(self.queries)]
    }

    /// Teams of 64 threads that share the rows: few chunks are in flight in decoding, so each must finish
    /// soon.
    fn teams(self) -> u32 {
        match self.queries {
            1 => 1,
            2 | 3 => 2,
            _ => 4,
        }
    }
}

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        render(
            format!("attention {} {}×{}", self.form.name(), self.head_len, self.queries),
            templates!["attention.wgsl.j2", "access.wgsl.j2", "weights.wgsl.j2"],
            context! {
                head_len => self.head_len, kv => kv_name(self.kv_format), form => self.form.name(),
                queries => self.queries, teams => self.teams(),
            },
            Vec::new(),
        )
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        let forms = [Form::Split, Form::Tree, Form::Tiled];
        let of = |(head_len, kv_format)| {
            let of =
                move |form| [1, 2, 3, 4, 7, 8].map(|queries| Self { head_len, kv_format, form, queries });
            forms.into_iter().flat_map(of)
        };
        crate::shader::format::tested_heads().into_iter().flat_map(of).collect()
    }
}
