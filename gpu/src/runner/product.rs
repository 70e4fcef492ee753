//! Which of the matrix kernels serves a batch.

use super::lower::MultiplyPage;
use crate::kernels::{Kernel, gemm, matrix};

/// Which kernel multiplies a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Product {
    /// The lane kernel of this bucket.
    Lane(u32),
    /// The prompt kernel.
    Gemm,
}

/// Prompt batches up to this long run on one lane kernel, longer ones on the GEMM: two pipelines for all of
/// them, since every pipeline costs compilation time on the visitor's first visit.
pub(super) const PROMPT_BUCKET: u32 = 8;

impl Product {
    /// For a prompt batch.
    pub(super) fn for_prompt(tokens: u32) -> Self {
        match tokens {
            1 => Self::Lane(1),
            2..=PROMPT_BUCKET => Self::Lane(PROMPT_BUCKET),
            _ => Self::Gemm,
        }
    }

    /// Its kernel and grid for a page and `tokens` live rows.
    pub(super) fn kernel(self, page: &MultiplyPage, tokens: u32, packed_dot: bool) -> (Kernel, [u32; 3]) {
        match self {
            Self::Lane(bucket) => {
                let variant = matrix::Variant::tuned(page.format, page.layout, bucket, packed_dot);
                (Kernel::Matrix(variant), variant.groups(page.rows))
            }
            Self::Gemm => {
                let variant = gemm::Variant { format: page.format, layout: page.layout, packed_dot };
                (Kernel::Gemm(variant), variant.groups(page.rows, tokens))
            }
        }
    }
}
