//! Commits a step in the control buffer.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use minijinja::context;

use crate::shader::{
    Ancestors, Choices, Control, Declared, Draft, Faults, History, RenderError, Shader, Slice, Tokens,
    bindings, record, render, templates,
};

pub use crate::shader::Form;

/// The only pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant;

record! {
    /// `Params` of the shader.
    pub struct Params {
        pub form: u32,
    }
}

bindings! {
    /// What the kernel binds.
    pub struct Bindings<'a> {
        /// Slices of the rows of logits.
        pub partials: Slice<'a, Choices>,
        /// Tokens of the nodes; the next root goes to the first.
        pub tokens: Slice<'a, Tokens>,
        /// The tree, and what came of it.
        pub draft: Slice<'a, Draft>,
        /// Where committed tokens go.
        pub history: Slice<'a, History>,
        /// Ancestors of the nodes.
        pub ancestors: Slice<'a, Ancestors>,
        /// Rows that are broken.
        pub faults: Slice<'a, Faults>,
        /// The control block.
        pub control: Slice<'a, Control>,
    }
}

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        render("accept".into(), templates!["accept.wgsl.j2"], context! {}, Vec::new())
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        vec![Self]
    }
}
