//! The prompt kernel: a weight matrix times many tokens, in the additions' order of the lane kernel.

#[cfg(test)]
mod cases;

use fanlight_messages::layout::{ResidentFormat, SlabLayout};
use minijinja::context;

use crate::shader::{Declared, RenderError, Shader, format, grid, render, templates};

pub use super::matrix::{Bindings, Params};

/// Rows per thread.
const ROWS: u32 = 4;
/// Tokens per thread.
const TOKENS: u32 = 4;
/// Threads along rows, and along tokens.
const SIDE: u32 = 8;

/// One pipeline per format and width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Format of the weights.
    pub format: ResidentFormat,
    /// Row layout.
    pub layout: SlabLayout,
    /// False where the device has no packed dot product.
    pub packed_dot: bool,
}

impl Variant {
    /// Workgroups for a page of `rows` rows and `tokens` tokens.
    pub fn groups(self, rows: u64, tokens: u32) -> [u32; 3] {
        let [x, y] = grid(rows.div_ceil(u64::from(SIDE * ROWS)));
        [x, y, tokens.div_ceil(SIDE * TOKENS)]
    }
}

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        render(
            format!("gemm {:?} {}", self.format, self.layout.blocks * 32),
            templates!["gemm.wgsl.j2"],
            context! {
                packed_dot => self.packed_dot, rows => ROWS, tokens => TOKENS, ..format::context(self.format)
            },
            format::weight_constants(self.format, self.layout),
        )
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        let of = |(format, layout, packed_dot)| Self { format, layout, packed_dot };
        format::tested().into_iter().map(of).collect()
    }
}
