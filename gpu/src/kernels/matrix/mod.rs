//! The lane kernel: a weight matrix times 1..32 tokens, weights read once.

#[cfg(test)]
mod cases;
#[cfg(test)]
pub(super) mod twin;

use fanlight_messages::layout::{ResidentFormat, SlabLayout};
use minijinja::context;

use crate::shader::{
    Control, Declared, Input, Planes, RenderError, Rows, Shader, Slice, bindings, format, grid, record,
    render, templates,
};

/// One pipeline per format, width and token count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Format of the weights.
    pub format: ResidentFormat,
    /// Row layout.
    pub layout: SlabLayout,
    /// Tokens per dispatch: 1, 2, 4, 8, 16 or 32.
    pub tokens: u32,
    /// Rows per thread; a tuning choice that never enters the order of additions.
    pub rows: u32,
    /// Row groups per workgroup; likewise.
    pub row_groups: u32,
    /// False where the device has no packed dot product.
    pub packed_dot: bool,
}

record! {
    /// `Params` of the shader, shared with the GEMM.
    pub struct Params {
        pub rows: u32,
        pub output_len: u32,
        pub output_offset: u32,
        pub last_only: u32,
    }
}

bindings! {
    /// What the kernel binds, shared with the GEMM.
    pub struct Bindings<'a> {
        /// Rows of the matrix.
        pub weights: Planes<'a>,
        /// What they are multiplied with.
        pub input: Input<'a>,
        /// The products.
        pub output: Slice<'a, Rows>,
        /// The control block.
        pub control: Slice<'a, Control>,
    }
}

/// Token counts that have a kernel of their own.
pub const BUCKETS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// f32s of workgroup memory that every WebGPU device has.
const WORKGROUP_FLOATS: u32 = 16_384 / 4;
/// Threads of a workgroup worth aiming for.
const GROUP_TARGET: u32 = 128;

impl Variant {
    /// The default tuning: four rows a thread pay from four tokens on, until the partial sums outgrow
    /// workgroup memory.
    pub fn tuned(format: ResidentFormat, layout: SlabLayout, tokens: u32, packed_dot: bool) -> Self {
        let mut rows = match tokens {
            1 | 2 => 2,
            4 | 8 => 4,
            16 => 2,
            _ => 1,
        };
        let partials = |rows: u32, groups: u32| rows * groups * tokens * (layout.slabs + 1);
        while rows > 1 && partials(rows, 1) > WORKGROUP_FLOATS {
            rows /= 2;
        }
        let mut row_groups = (GROUP_TARGET / layout.slabs).clamp(1, 32);
        while row_groups > 1 && partials(rows, row_groups) > WORKGROUP_FLOATS {
            row_groups -= 1;
        }
        Self { format, layout, tokens, rows, row_groups, packed_dot }
    }

    /// Workgroups for a page of `rows` rows.
    pub fn groups(self, rows: u64) -> [u32; 3] {
        let [x, y] = grid(rows.div_ceil(u64::from(self.rows * self.row_groups)));
        [x, y, 1]
    }

    /// Blocks whose weights are requested together: as many as registers bear.
    fn unroll(self) -> u32 {
        let wanted = match self.tokens * self.rows {
            0..=4 => 4,
            5..=8 => 2,
            _ => 1,
        };
        if format::is_float(self.format) { 1 } else { wanted.min(self.layout.blocks_per_slab) }
    }
}

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        let mut constants = format::weight_constants(self.format, self.layout);
        let partials = self.row_groups * self.rows * self.tokens * (self.layout.slabs + 1);
        constants.extend([
            ("ROW_GROUPS", f64::from(self.row_groups)),
            ("GROUP", f64::from(self.row_groups * self.layout.slabs)),
            ("PARTIALS", f64::from(partials)),
        ]);
        render(
            format!("matrix {:?} {}×{}", self.format, self.layout.blocks * 32, self.tokens),
            templates!["matrix.wgsl.j2"],
            context! {
                packed_dot => self.packed_dot, rows => self.rows, tokens => self.tokens,
                unroll => self.unroll(),
                ..format::context(self.format)
            },
            constants,
        )
    }

    #[cfg(test)]
    fn all() -> Vec<Self> {
        let of = |(format, layout, packed_dot)| {
            BUCKETS.map(|tokens| Self::tuned(format, layout, tokens, packed_dot))
        };
        format::tested().into_iter().flat_map(of).collect()
    }
}
