//! From the q|k|v row to scaled queries and cache rows.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use super::KvFormat;
use super::source::{RenderError, Shader, render};
use minijinja::context;

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

/// `Params` of the shader.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[allow(missing_docs, reason = "documented in the shader")]
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

impl Variant {
    pub(super) fn shader(self) -> Result<Shader, RenderError> {
        render(
            format!("heads{} {} {:?}", if self.tree { " tree" } else { "" }, self.head_len, self.kv_format),
            &["control", "heads"],
            context! {
                head_len => self.head_len,
                group => (self.head_len / 2).next_multiple_of(32),
                kv => kv_name(self.kv_format),
                tree => self.tree,
            },
            Vec::new(),
        )
    }
}

/// The templates' name of a cache format.
pub(super) fn kv_name(format: KvFormat) -> &'static str {
    match format {
        KvFormat::F16 => "f16",
        KvFormat::F32 => "f32",
    }
}
