//! The draw: the best candidate of each slice of a logits row under noise that belongs to its position.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use minijinja::context;

use crate::shader::{
    Ancestors, Choices, Control, Declared, RenderError, Rows, Sampling, Selection, Shader, Slice, bindings,
    record, render, templates,
};

record! {
    /// `Params` of the shader.
    pub struct Params {
        pub len: u32,
        pub form: u32,
        pub passes: u32,
        pub stage: u32,
    }
}

bindings! {
    /// What the kernel binds.
    pub struct Bindings<'a> {
        /// Rows of logits.
        pub logits: Slice<'a, Rows>,
        /// What is drawn of each slice.
        pub partials: Slice<'a, Choices>,
        /// The cuts.
        pub selection: Slice<'a, Selection>,
        /// Ancestors of the nodes.
        pub ancestors: Slice<'a, Ancestors>,
        /// How tokens are drawn.
        pub sampling: Slice<'a, Sampling>,
        /// The control block.
        pub control: Slice<'a, Control>,
    }
}

/// The only pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant;

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        render("sample".into(), templates!["sample.wgsl.j2", "noise.wgsl"], context! {}, Vec::new())
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        vec![Self]
    }
}
