//! RMS norm of a tile: the residual stream takes what the last block adds, and leaves normalised and
//! quantised.

use crate::math::{fold_lanes, rms_scale};
use crate::quantise::{BLOCK_LEN, Block, keep, quantise};
use crate::simd::{Kernel, Simd};
use crate::tiles::{LANES, Panel};

/// `residual += delta` (normalised by `post_norm` first where there is one);
/// `out = quantise(residual / rms(residual) · weight)`.
#[derive(Debug)]
pub struct Normalize<'a> {
    /// `[panel][room]`, read and written.
    pub residual: &'a mut [Panel],
    /// `[panel][room]`.
    pub delta: Option<&'a [Panel]>,
    /// Norm weights of the delta.
    pub post_norm: Option<&'a [f32]>,
    /// Norm weights; as long as a row.
    pub weight: &'a [f32],
    /// Added to the mean square.
    pub epsilon: f32,
    /// Rows that the tile has room for.
    pub room: usize,
    /// Live rows.
    pub live: usize,
    /// `[block][room]`.
    pub out: &'a mut [Block],
    /// `[element][room]`, or empty where no float matrix reads it.
    pub values: &'a mut [f32],
}

impl Kernel for Normalize<'_> {
    /// A bit for each row whose output is not finite.
    type Output = u32;

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) -> u32 {
        (0..self.live).fold(0, |faults, row| faults | u32::from(!self.row(s, row)) << row)
    }
}

impl Normalize<'_> {
    #[inline(always)]
    fn row<S: Simd>(&mut self, s: S, row: usize) -> bool {
        let Self { residual, delta, post_norm, weight, epsilon, room, .. } = self;
        let (room, len) = (*room, weight.len());
        let mut squares = [0.0; LANES];
        if let Some(delta) = delta {
            let scale = post_norm.map(|norm| {
                let mut squares = [0.0; LANES];
                for delta in delta.iter().skip(row).step_by(room) {
                    add_squares(s, &mut squares, delta);
                }
                (norm, rms_scale(fold_lanes(squares), len, *epsilon))
            });
            let pairs = residual.iter_mut().zip(*delta).skip(row).step_by(room);
            for (panel, (residual, delta)) in pairs.enumerate() {
                for lane in (0..LANES).step_by(S::LANES) {
                    let mut added = s.load(&delta[lane..][..S::LANES]);
                    if let Some((norm, scale)) = scale {
                        let norm = s.load(&norm[panel * LANES + lane..][..S::LANES]);
                        added = s.mul(s.mul(added, s.splat(scale)), norm);
                    }
                    let residual = &mut residual[lane..][..S::LANES];
                    let sum = s.add(s.load(residual), added);
                    s.store(residual, sum);
                }
                add_squares(s, &mut squares, residual);
            }
        } else {
            for residual in residual.iter().skip(row).step_by(room) {
                add_squares(s, &mut squares, residual);
            }
        }
        let scale = rms_scale(fold_lanes(squares), len, *epsilon);
        let mut is_finite = true;
        for (block, weight) in weight.chunks_exact(BLOCK_LEN).enumerate() {
            let mut x = [0.0; BLOCK_LEN];
            for at in (0..BLOCK_LEN).step_by(S::LANES) {
                let panel = &residual[(block * 2 + at / LANES) * room + row];
                let value = s.load(&panel[at % LANES..][..S::LANES]);
                let weight = s.load(&weight[at..][..S::LANES]);
                s.store(&mut x[at..][..S::LANES], s.mul(s.mul(value, s.splat(scale)), weight));
            }
            is_finite &= quantise(s, &x, &mut self.out[block * room + row]);
            keep(self.values, &x, block, room, row);
        }
        is_finite
    }
}

#[inline(always)]
fn add_squares<S: Simd>(s: S, squares: &mut Panel, x: &Panel) {
    for lane in (0..LANES).step_by(S::LANES) {
        let x = s.load(&x[lane..][..S::LANES]);
        let squares = &mut squares[lane..][..S::LANES];
        let sum = s.add(s.load(squares), s.mul(x, x));
        s.store(squares, sum);
    }
}
