//! What kernels share and stand on: how a shader is rendered and what it says of itself, bindings and records
//! as types, the words of buffers, weight formats. Which kernels there are is known above, in `kernels`.

mod bind;
mod content;
pub(crate) mod format;
mod render;
mod words;

pub use bind::{Bind, Member, RawSlice, Record, Slice};
pub(crate) use bind::{bindings, record};
pub use content::*;
pub use render::{Access, Binding, RenderError, Shader};
pub(crate) use render::{render, templates};
pub use words::Form;

use fanlight_messages::layout::SlabLayout;
use fanlight_messages::plan::KvFormat;

/// What the folder of a kernel declares: a variant of it is one pipeline.
pub trait Declared: Copy {
    /// What it reads per dispatch.
    type Params: Record;
    /// What it binds.
    type Bindings<'a>: Bind<'a>;

    /// Its WGSL, bindings and constants.
    fn shader(self) -> Result<Shader, RenderError>;

    /// The variants that are tested: each value of each axis, at every width where it has one.
    #[cfg(test)]
    fn all() -> Vec<Self>;
}

/// Most workgroups along one dimension of a dispatch.
pub const GROUPS_MAX: u32 = 65_535;

/// A grid of at least `groups` workgroups, two-dimensional beyond the limit of one dimension.
pub fn grid(groups: u64) -> [u32; 2] {
    let groups = groups.max(1);
    let x = groups.min(u64::from(GROUPS_MAX));
    [x as u32, groups.div_ceil(x) as u32]
}

/// Workgroups of 64 threads, eight elements each, that cover a row with its padding: how a row is quantised.
pub fn row_groups(layout: SlabLayout) -> u32 {
    (layout.padded_blocks() * 4).div_ceil(64)
}

/// The templates' name of a cache format.
pub(crate) fn kv_name(format: KvFormat) -> &'static str {
    match format {
        KvFormat::F16 => "f16",
        KvFormat::F32 => "f32",
    }
}
