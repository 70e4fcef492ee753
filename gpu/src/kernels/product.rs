//! The two kernels that multiply a matrix: they bind the same and read the same record, so that one bind
//! group serves every batch.

use super::{Kernel, gemm, matrix};
use crate::shader::{Declared, RenderError, Shader};

pub use super::matrix::{Bindings, Params};

/// One pipeline of either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant {
    /// For a few tokens.
    Lane(matrix::Variant),
    /// For many.
    Gemm(gemm::Variant),
}

impl Variant {
    /// Workgroups for a page of `rows` rows and `tokens` tokens.
    pub fn groups(self, rows: u64, tokens: u32) -> [u32; 3] {
        match self {
            Self::Lane(variant) => variant.groups(rows),
            Self::Gemm(variant) => variant.groups(rows, tokens),
        }
    }
}

impl From<Variant> for Kernel {
    fn from(variant: Variant) -> Self {
        match variant {
            Variant::Lane(variant) => variant.into(),
            Variant::Gemm(variant) => variant.into(),
        }
    }
}

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        match self {
            Self::Lane(variant) => variant.shader(),
            Self::Gemm(variant) => variant.shader(),
        }
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        let lanes = matrix::Variant::all().into_iter().map(Self::Lane);
        lanes.chain(gemm::Variant::all().into_iter().map(Self::Gemm)).collect()
    }
}
