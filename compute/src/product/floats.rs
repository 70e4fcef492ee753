//! Products with float weights: the f32 elements of the input, one multiplication and addition each, in
//! element order.

use super::{Input, Sums};
use crate::quantise::BLOCK_LEN;
use crate::simd::Simd;
use crate::tiles::{LANES, Panel};

macro_rules! product {
    ($name:ident, $width:literal, $load:ident) => {
        #[inline(always)]
        pub(super) fn $name<S: Simd, const T: usize>(
            s: S,
            group: &[u8],
            slab: usize,
            input: Input<'_>,
            first: usize,
            out: &mut [Panel],
        ) {
            for lane in (0..LANES).step_by(S::LANES) {
                let mut sums = Sums::<S, T>::new(s, slab * BLOCK_LEN);
                let columns = group.chunks_exact(LANES * $width);
                for (weights, x) in columns.zip(input.values.chunks_exact(input.room)) {
                    let weights = s.$load(&weights[lane * $width..][..S::LANES * $width]);
                    let x: &[f32; T] = x[first..].first_chunk().expect("the room holds T rows");
                    for (t, x) in x.iter().enumerate() {
                        sums.add(s, t, s.mul(weights, s.splat(*x)));
                    }
                    sums.step(s);
                }
                sums.store(s, lane, out);
            }
        }
    };
}

product!(f32s, 4, load_bytes);
product!(halves, 2, load_half);
product!(brains, 2, load_brain);
