//! The kernels: WGSL templates and the typed variants that render them.
//!
//! A [`Kernel`] is one pipeline. Its fields are everything that changes code or constants; what changes per
//! dispatch is in the kernel's `Params` uniform. A folder declares all of it ([`Declared`]); the list below
//! is all that knows it.

pub mod accept;
pub mod activate;
pub mod adjust;
pub mod attention;
pub mod choose;
pub mod draft;
pub mod embed;
pub mod fold;
pub mod gemm;
pub mod heads;
pub mod logits;
pub mod matrix;
pub mod normalize;
pub mod product;
pub mod repack;
pub mod sample;
pub mod scan;
pub mod weigh;

#[cfg(test)]
mod testing;

use crate::shader::{Declared, RenderError, Shader};

macro_rules! kernels {
    ($($(#[$meta:meta])* $name:ident($module:ident)),* $(,)?) => {
        /// One pipeline of the engine.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kernel {
            $($(#[$meta])* $name($module::Variant)),*
        }

        $(impl From<$module::Variant> for Kernel {
            fn from(variant: $module::Variant) -> Self {
                Self::$name(variant)
            }
        })*

        impl Kernel {
            /// Its WGSL, bindings and constants.
            pub fn shader(self) -> Result<Shader, RenderError> {
                match self {
                    $(Self::$name(variant) => variant.shader()),*
                }
            }

            /// The tested variants of all of them, with the records that they read.
            #[cfg(test)]
            fn all() -> Vec<(Self, testing::Layout)> {
                let mut all = Vec::new();
                $(all.extend(testing::declared::<$module::Variant>());)*
                all
            }
        }
    };
}
kernels! {
    /// Token ids → rows of the embedding table.
    Embed(embed),
    /// Residual add, RMS norm, quantise.
    Normalize(normalize),
    /// Matrix times 1..32 tokens.
    Matrix(matrix),
    /// Matrix times many tokens.
    Gemm(gemm),
    /// Bias, head norm, rotation, cache write.
    Heads(heads),
    /// Attention over chunks.
    Attention(attention),
    /// Fold of chunks, quantise.
    Fold(fold),
    /// Gate function, quantise.
    Activate(activate),
    /// Scale and soft cap of logits rows.
    Logits(logits),
    /// Slices of a logits row → maxima and hashes.
    Choose(choose),
    /// Logit bias and penalties, and what `Choose` does.
    Adjust(adjust),
    /// A pass on the way to the cuts of top-k and top-p.
    Weigh(weigh),
    /// Slices of a logits row → drawn candidates.
    Sample(sample),
    /// Commit of a step.
    Accept(accept),
    /// History → matches of the context's end.
    Scan(scan),
    /// Matches → draft tree.
    Draft(draft),
    /// File blocks → resident planes.
    Repack(repack),
}
