//! What buffers hold, and the groups of bindings that several kernels have.

use super::{Bind, RawSlice, Slice, bindings};

macro_rules! contents {
    ($($(#[$meta:meta])* $name:ident),* $(,)?) => {
        $($(#[$meta])* #[derive(Debug, Clone, Copy)] pub enum $name {})*
    };
}
contents! {
    /// f32 rows, one per token of the batch; logits are such rows.
    Rows,
    /// int8 codes of a quantised activation.
    Codes,
    /// Its scales and half sums.
    Meta,
    /// Its f32 elements.
    Elements,
    /// All constant vectors.
    Vectors,
    /// A rotary table.
    Rope,
    /// Keys of a head group.
    Keys,
    /// Values of a head group.
    Values,
    /// Partial results of attention.
    Partials,
    /// Token ids of a batch.
    Tokens,
    /// The control block and what follows it.
    Control,
    /// What is chosen of each slice of a row of logits.
    Choices,
    /// How tokens are chosen.
    Sampling,
    /// Where top-k and top-p cut.
    Selection,
    /// Session memory and context.
    History,
    /// Matches of the context's end.
    Matches,
    /// The draft tree.
    Draft,
    /// The ancestors of its nodes.
    Ancestors,
    /// A bit per row that met what is not a number.
    Faults,
    /// File bytes.
    Landing,
    /// A plane of weights.
    Weights,
}

bindings! {
    /// The planes of weight rows; a format has the first and some of the others.
    pub struct Planes<'a> {
        /// Codes.
        pub codes: Slice<'a, Weights>,
        /// High bits.
        pub high: Option<Slice<'a, Weights>>,
        /// Scales of blocks.
        pub scales: Option<Slice<'a, Weights>>,
        /// Scales of superblocks.
        pub supers: Option<Slice<'a, Weights>>,
    }
}

bindings! {
    /// Where a kernel leaves a quantised row.
    pub struct Quantised<'a> {
        /// Its codes.
        pub out_codes: Slice<'a, Codes>,
        /// Its scales.
        pub out_meta: Slice<'a, Meta>,
        /// Its elements, where they are kept.
        pub out_values: Option<Slice<'a, Elements>>,
        /// Rows that are broken.
        pub faults: Slice<'a, Faults>,
    }
}

/// The activation that a matrix is multiplied with.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// Of a quantised matrix.
    Codes(Slice<'a, Codes>, Slice<'a, Meta>),
    /// Of a float matrix.
    Elements(Slice<'a, Elements>),
}

impl<'a> Bind<'a> for Input<'a> {
    fn bind(&self, _: &'static str, to: &mut Vec<(&str, RawSlice<'a>)>) {
        match self {
            Self::Codes(codes, meta) => {
                codes.bind("input_codes", to);
                meta.bind("input_meta", to);
            }
            Self::Elements(elements) => elements.bind("input_values", to),
        }
    }
}
