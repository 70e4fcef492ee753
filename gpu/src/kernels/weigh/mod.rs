//! Passes over logits rows that find where top-k and top-p cut.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use fanlight_messages::sampling::Sampling;
use minijinja::context;

use crate::shader::{
    self, Choices, Control, Declared, RenderError, Rows, Selection, Shader, Slice, bindings, record, render,
    templates,
};

/// What a pass weighs candidates by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Stage {
    /// Their number, for top-k.
    Count = 0,
    /// Their masses, for top-p.
    Mass = 1,
}

/// Digits of a key, each a pass.
pub const LEVELS: u32 = 3;

record! {
    /// `Params` of the shader.
    pub struct Params {
        pub len: u32,
        pub pass_index: u32,
        pub stage: u32,
        pub level: u32,
    }
}

bindings! {
    /// What the kernel binds.
    pub struct Bindings<'a> {
        /// Rows of logits.
        pub logits: Slice<'a, Rows>,
        /// The largest of each slice.
        pub partials: Slice<'a, Choices>,
        /// How far the cuts are found.
        pub selection: Slice<'a, Selection>,
        /// Where to cut.
        pub sampling: Slice<'a, shader::Sampling>,
        /// The control block.
        pub control: Slice<'a, Control>,
    }
}

/// Workgroups of a pass, or of a draw, over `rows` rows of `len` logits: the shader cuts slices alike.
pub fn grid(len: u32, rows: u32) -> [u32; 3] {
    let slice_len = (len.div_ceil(256) * 4).max(1024);
    [len.div_ceil(slice_len), rows, 1]
}

/// The passes that a request needs over rows of `len` logits, in order.
pub fn passes(sampling: &Sampling, len: u32) -> Vec<Params> {
    let stages =
        [sampling.top_k(len).map(|_| Stage::Count as u32), sampling.top_p().map(|_| Stage::Mass as u32)];
    let digits = stages.into_iter().flatten().flat_map(|stage| (0..LEVELS).map(move |level| (stage, level)));
    (0..).zip(digits).map(|(pass_index, (stage, level))| Params { len, pass_index, stage, level }).collect()
}

/// The only pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant;

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        render("weigh".into(), templates!["weigh.wgsl.j2"], context! {}, Vec::new())
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        vec![Self]
    }
}
