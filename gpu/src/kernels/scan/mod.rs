//! Matches of the context's end in the history.

use fanlight_messages::draft::{MEMORY_TOKENS, SCAN_POSITIONS};
use minijinja::context;

use crate::shader::{
    Control, Declared, History, Matches, RenderError, Shader, Slice, bindings, record, render, templates,
};

record! {
    /// `Params` of the shader, and of the draft kernel.
    pub struct Params {
        pub first: u32,
        pub width: u32,
    }
}

bindings! {
    /// What the kernel binds.
    pub struct Bindings<'a> {
        /// What is searched.
        pub history: Slice<'a, History>,
        /// The best matches of each workgroup.
        pub matches: Slice<'a, Matches>,
        /// The control block.
        pub control: Slice<'a, Control>,
    }
}

/// Workgroups that search from index `first` to the token at position `last`.
pub fn groups(first: u32, last: u32) -> [u32; 3] {
    [(MEMORY_TOKENS + last) / SCAN_POSITIONS - first / SCAN_POSITIONS + 1, 1, 1]
}

/// The only pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant;

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        render("scan".into(), templates!["scan.wgsl.j2"], context! {}, Vec::new())
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        vec![Self]
    }
}
