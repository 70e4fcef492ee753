//! The kernels: WGSL templates and the typed variants that render them.
//!
//! A [`Kernel`] is one pipeline. Its fields are everything that changes code or constants; what changes per
//! dispatch is in the kernel's `Params` uniform.

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
pub mod repack;
pub mod sample;
pub mod scan;
pub mod weigh;

mod format;
mod source;
#[cfg(test)]
mod testing;

pub use source::{Binding, RenderError, Shader};

use fanlight_messages::TensorType;
use fanlight_messages::layout::{ResidentFormat, SlabLayout};
use fanlight_messages::plan::KvFormat;
use fanlight_messages::program::GateFunction;

/// One pipeline of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Token ids → rows of the embedding table.
    Embed(embed::Variant),
    /// Residual add, RMS norm, quantise.
    Normalize(normalize::Variant),
    /// Matrix times 1..32 tokens.
    Matrix(matrix::Variant),
    /// Matrix times many tokens.
    Gemm(gemm::Variant),
    /// Bias, head norm, rotation, cache write.
    Heads(heads::Variant),
    /// Attention over chunks.
    Attention(attention::Variant),
    /// Fold of chunks, quantise.
    Fold(fold::Variant),
    /// Gate function, quantise.
    Activate(activate::Variant),
    /// Scale and soft cap of logits rows.
    Logits,
    /// Slices of a logits row → maxima and hashes.
    Choose,
    /// Logit bias and penalties, and what `Choose` does.
    Adjust,
    /// A pass on the way to the cuts of top-k and top-p.
    Weigh,
    /// Slices of a logits row → drawn candidates.
    Sample,
    /// Commit of a step.
    Accept,
    /// History → matches of the context's end.
    Scan,
    /// Matches → draft tree.
    Draft,
    /// File blocks → resident planes.
    Repack(repack::Variant),
}

impl Kernel {
    /// Its WGSL, bindings and constants.
    pub fn shader(self) -> Result<Shader, RenderError> {
        match self {
            Self::Embed(v) => v.shader(),
            Self::Normalize(v) => v.shader(),
            Self::Matrix(v) => v.shader(),
            Self::Gemm(v) => v.shader(),
            Self::Heads(v) => v.shader(),
            Self::Attention(v) => v.shader(),
            Self::Fold(v) => v.shader(),
            Self::Activate(v) => v.shader(),
            Self::Logits => logits::shader(),
            Self::Choose => choose::shader(),
            Self::Adjust => adjust::shader(),
            Self::Weigh => weigh::shader(),
            Self::Sample => sample::shader(),
            Self::Accept => accept::shader(),
            Self::Scan => scan::shader(),
            Self::Draft => draft::shader(),
            Self::Repack(v) => v.shader(),
        }
    }
}

/// Most workgroups along one dimension of a dispatch.
pub const GROUPS_MAX: u32 = 65_535;

/// A grid of at least `groups` workgroups, two-dimensional beyond the limit of one dimension.
pub fn grid(groups: u64) -> [u32; 2] {
    let groups = groups.max(1);
    let x = groups.min(u64::from(GROUPS_MAX));
    [x as u32, groups.div_ceil(x) as u32]
}
