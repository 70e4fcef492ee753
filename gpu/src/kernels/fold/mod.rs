//! Folds attention chunks left to right and quantises the row.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use fanlight_messages::layout::SlabLayout;
use minijinja::context;

use super::attention;
use crate::shader::{
    Ancestors, Control, Declared, Partials, Quantised, RenderError, Shader, Slice, bindings, format, record,
    render, row_groups, templates,
};

/// One pipeline per width and position rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Layout of the output row.
    pub layout: SlabLayout,
    /// Positions come from the ancestor table.
    pub tree: bool,
    /// Also write the f32 elements.
    pub keeps_values: bool,
}

record! {
    /// `Params` of the shader.
    pub struct Params {
        pub len: u32,
        pub query_heads: u32,
        pub head_len: u32,
        pub window: u32,
        pub chunk_count: u32,
        pub first_node: u32,
    }
}

bindings! {
    /// What the kernel binds.
    pub struct Bindings<'a> {
        /// Chunks of attention.
        pub partials: Slice<'a, Partials>,
        /// Ancestors of the nodes, for trees.
        pub ancestors: Option<Slice<'a, Ancestors>>,
        /// The quantised row.
        pub output: Quantised<'a>,
        /// The control block.
        pub control: Slice<'a, Control>,
    }
}

impl Variant {
    /// Workgroups for `tokens` rows.
    pub fn groups(self, tokens: u32) -> [u32; 3] {
        [row_groups(self.layout), tokens, 1]
    }
}

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        let form = if self.tree { attention::Form::Tree } else { attention::Form::Split };
        render(
            format!("fold {} {}", form.name(), self.layout.blocks * 32),
            templates!["fold.wgsl.j2"],
            context! { keeps_values => self.keeps_values, form => form.name() },
            format::slab_constants(self.layout),
        )
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        let flags = [(true, true), (true, false), (false, true), (false, false)];
        let of = |layout| flags.map(|(tree, keeps_values)| Self { layout, tree, keeps_values });
        format::tested_layouts().into_iter().flat_map(of).collect()
    }
}
