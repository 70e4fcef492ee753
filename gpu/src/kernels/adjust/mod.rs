//! Logit bias and penalties in place, then maxima and hashes as the choice kernel leaves them.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use minijinja::context;

use crate::shader::{
    Ancestors, Choices, Control, Declared, Faults, History, RenderError, Rows, Sampling, Shader, Slice,
    Tokens, bindings, record, render, templates,
};

/// Ids whose changes are marked at once: a slice of the largest published vocabulary takes two tiles, and
/// with what finds the maximum they fit the smallest workgroup memory.
pub(super) const TILE: u32 = 3072;

record! {
    /// `Params` of the shader.
    pub struct Params {
        pub len: u32,
        pub hash: u32,
        pub form: u32,
    }
}

bindings! {
    /// What the kernel binds.
    pub struct Bindings<'a> {
        /// Rows of logits, which change.
        pub logits: Slice<'a, Rows>,
        /// What is chosen of each slice.
        pub partials: Slice<'a, Choices>,
        /// Tokens of the nodes.
        pub tokens: Slice<'a, Tokens>,
        /// Tokens that penalties look at.
        pub history: Slice<'a, History>,
        /// Ancestors of the nodes.
        pub ancestors: Slice<'a, Ancestors>,
        /// Biases and penalties.
        pub sampling: Slice<'a, Sampling>,
        /// The control block.
        pub control: Slice<'a, Control>,
        /// Rows that are broken.
        pub faults: Slice<'a, Faults>,
    }
}

/// The only pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant;

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        render("adjust".into(), templates!["adjust.wgsl.j2"], context! { tile => TILE }, Vec::new())
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        vec![Self]
    }
}
