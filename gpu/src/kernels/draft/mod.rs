//! The next draft tree, from the matches that the scan left.

use minijinja::context;

use crate::shader::{
    Ancestors, Control, Declared, Draft, History, Matches, RenderError, Shader, Slice, Tokens, bindings,
    render, templates,
};

pub use super::scan::Params;

bindings! {
    /// What the kernel binds.
    pub struct Bindings<'a> {
        /// Matches that the scan left.
        pub matches: Slice<'a, Matches>,
        /// Tokens of the nodes.
        pub tokens: Slice<'a, Tokens>,
        /// The tree.
        pub draft: Slice<'a, Draft>,
        /// What goes on behind the matches.
        pub history: Slice<'a, History>,
        /// Ancestors of the nodes.
        pub ancestors: Slice<'a, Ancestors>,
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
        let files = templates!["draft.wgsl.j2", "learn.wgsl.j2", "trie.wgsl"];
        render("draft".into(), files, context! {}, Vec::new())
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        vec![Self]
    }
}
