//! What a model does to the rows of its head before anything is chosen: a scale, a soft cap.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use minijinja::context;

use crate::shader::{
    Control, Declared, RenderError, Rows, Shader, Slice, bindings, record, render, templates,
};

record! {
    /// `Params` of the shader.
    pub struct Params {
        pub len: u32,
        pub scale: f32,
        pub soft_cap: f32,
    }
}

bindings! {
    /// What the kernel binds.
    pub struct Bindings<'a> {
        /// Rows of logits, which change.
        pub logits: Slice<'a, Rows>,
        /// The control block.
        pub control: Slice<'a, Control>,
    }
}

/// Workgroups over `rows` rows of `len` logits.
pub fn grid(len: u32, rows: u32) -> [u32; 3] {
    [len.div_ceil(256), rows, 1]
}

/// The only pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant;

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        render("logits".into(), templates!["logits.wgsl.j2"], context! {}, Vec::new())
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        vec![Self]
    }
}
