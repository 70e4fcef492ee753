//! Argmax and hash of logits rows, by slices.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use minijinja::context;

use crate::shader::{
    Choices, Control, Declared, Faults, RenderError, Rows, Shader, Slice, bindings, record, render, templates,
};

/// Slices of a row, of which the last ones may be empty.
pub const SLICES: u32 = 64;
/// Fewest ids of a slice that is not the last: one for each thread.
pub(super) const SLICE_IDS_MIN: u32 = 256;

record! {
    /// `Params` of the shader.
    pub struct Params {
        pub len: u32,
        pub hash: u32,
    }
}

bindings! {
    /// What the kernel binds.
    pub struct Bindings<'a> {
        /// Rows of logits.
        pub logits: Slice<'a, Rows>,
        /// What is chosen of each slice.
        pub partials: Slice<'a, Choices>,
        /// The control block.
        pub control: Slice<'a, Control>,
        /// Rows that are broken.
        pub faults: Slice<'a, Faults>,
    }
}

/// Workgroups over `rows` rows of `len` logits: one for each slice that holds something.
pub fn grid(len: u32, rows: u32) -> [u32; 3] {
    [len.div_ceil(len.div_ceil(SLICES).max(SLICE_IDS_MIN)), rows, 1]
}

/// The only pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant;

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        render("choose".into(), templates!["choose.wgsl.j2"], context! {}, Vec::new())
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        vec![Self]
    }
}

/// What the kernel leaves of a row, four words a slice: other kernels that choose are compared with it.
#[cfg(test)]
pub(super) fn slices(row: &[f32]) -> Vec<[u32; 4]> {
    let words = |slice: twin::Slice| {
        let (value, id) = slice.best.unwrap_or((f32::MIN, u32::MAX));
        [value.to_bits(), id, slice.hash, value.to_bits()]
    };
    twin::slices(row, true).into_iter().map(words).collect()
}
