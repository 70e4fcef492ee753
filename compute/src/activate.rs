//! The gate of the feed-forward: `out = quantise(f(gate) · up)` of a gate|up row.

use crate::math::sigmoid2;
use crate::quantise::{BLOCK_LEN, Block, keep, quantise};
use crate::simd::{Kernel, Simd};
use crate::tiles::{LANES, Panel};

/// Gate function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// x · sigmoid(x).
    Silu,
    /// The tanh form of GELU: x · sigmoid(2 √(2/π) (x + 0.044715 x³)).
    GeluTanh,
}

/// Some blocks of a tile.
#[derive(Debug)]
pub struct Activate<'a> {
    /// gate|up, `[panel][room]`.
    pub input: &'a [Panel],
    /// Panels of the gate, and so of up.
    pub panels: usize,
    /// The gate function.
    pub gate: Gate,
    /// First block.
    pub first_block: usize,
    /// Rows that the tile has room for.
    pub room: usize,
    /// Live rows.
    pub live: usize,
    /// `[block][room]` from the first block on.
    pub out: &'a mut [Block],
    /// `[element][room]` from the first block on, or empty.
    pub values: &'a mut [f32],
}

impl Kernel for Activate<'_> {
    /// A bit for each row whose output is not finite.
    type Output = u32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u32 {
        let Self { input, panels, gate, first_block, room, live, out, values } = self;
        let mut faults = 0;
        for (block, out) in out.chunks_exact_mut(room).enumerate() {
            for row in 0..live {
                let mut x = [0.0; BLOCK_LEN];
                for at in (0..BLOCK_LEN).step_by(S::LANES) {
                    let panel = (first_block + block) * 2 + at / LANES;
                    let load = |panel: usize| s.load(&input[panel * room + row][at % LANES..][..S::LANES]);
                    let (g, up) = (load(panel), load(panel + panels));
                    let z = match gate {
                        Gate::Silu => s.mul(g, s.splat(std::f32::consts::LOG2_E)),
                        Gate::GeluTanh => {
                            // 2 √(2/π) log2(e)
                            let cubed = s.mul(s.mul(s.mul(g, g), g), s.splat(0.044_715));
                            s.mul(s.add(g, cubed), s.splat(2.302_208_2))
                        }
                    };
                    let value = s.mul(s.mul(g, sigmoid2(s, z)), up);
                    s.store(&mut x[at..][..S::LANES], value);
                }
                faults |= u32::from(!quantise(s, &x, &mut out[row])) << row;
                keep(values, &x, block, room, row);
            }
        }
        faults
    }
}
