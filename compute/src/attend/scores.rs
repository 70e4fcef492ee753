//! Scores: products of queries with keys. A position keeps to its lane, so a score is the same whichever
//! positions and queries are computed with it.

use super::{Attend, CHUNK_LEN, NODES_MAX};
use crate::cache::{CacheFormat, KEY_BLOCK_BYTES};
use crate::product::signed_products;
use crate::quantise::{BLOCK_LEN, Block};
use crate::simd::Simd;
use crate::tiles::LANES;

/// Scores of the first `filled` positions of the chunk at `start`, for all queries.
#[inline(always)]
pub(super) fn chunk<S: Simd>(s: S, attend: &mut Attend<'_>, queries: usize, start: usize, filled: usize) {
    for group in 0..filled.div_ceil(LANES) {
        for_queries::<S, false>(s, attend, queries, start + group * LANES, group * LANES);
    }
}

/// Scores of all nodes of the tree, for all queries.
#[inline(always)]
pub(super) fn nodes<S: Simd>(s: S, attend: &mut Attend<'_>, queries: usize) {
    for group in 0..NODES_MAX / LANES {
        for_queries::<S, true>(s, attend, queries, attend.nodes_at + group * LANES, group * LANES);
    }
}

/// Scores of sixteen rows of the cache, `row` the first of them, to `place..` of those of each query.
#[inline(always)]
fn for_queries<S: Simd, const NODES: bool>(
    s: S,
    attend: &mut Attend<'_>,
    queries: usize,
    row: usize,
    place: usize,
) {
    let mut first = 0;
    while first < queries {
        first += match queries - first {
            4.. => tile::<S, NODES, 4>(s, attend, queries, first, row, place),
            2.. => tile::<S, NODES, 2>(s, attend, queries, first, row, place),
            _ => tile::<S, NODES, 1>(s, attend, queries, first, row, place),
        };
    }
}

#[inline(always)]
fn tile<S: Simd, const NODES: bool, const T: usize>(
    s: S,
    attend: &mut Attend<'_>,
    queries: usize,
    first: usize,
    row: usize,
    place: usize,
) -> usize {
    let bytes = attend.cache.key_group_bytes();
    let group = &attend.head[row / LANES * bytes..][..bytes];
    for lane in (0..LANES).step_by(S::LANES) {
        let sums: [S::F; T] = match attend.cache.format {
            CacheFormat::Q8 => codes(s, group, lane, &attend.scratch.queries, queries, first),
            CacheFormat::F16 => floats(s, group, lane, 2, attend, first),
            CacheFormat::F32 => floats(s, group, lane, 4, attend, first),
        };
        let (to, len) = if NODES {
            (&mut attend.scratch.node_scores, NODES_MAX)
        } else {
            (&mut attend.scratch.scores, CHUNK_LEN)
        };
        for (t, sum) in sums.iter().enumerate() {
            s.store(&mut to[(first + t) * len + place + lane..][..S::LANES], *sum);
        }
    }
    T
}

#[inline(always)]
fn codes<S: Simd, const T: usize>(
    s: S,
    group: &[u8],
    lane: usize,
    blocks: &[Block],
    queries: usize,
    first: usize,
) -> [S::F; T] {
    let mut sums = [s.splat(0.0); T];
    for (b, keys) in group.chunks_exact(KEY_BLOCK_BYTES).enumerate() {
        let x: &[Block; T] = blocks[b * queries + first..].first_chunk().expect("T queries are left");
        let products = signed_products::<S, T>(s, &keys[..LANES * BLOCK_LEN], lane, x);
        let scale = s.load_bytes(&keys[LANES * BLOCK_LEN + lane * 4..][..S::LANES * 4]);
        for t in 0..T {
            let i = s.to_f(s.finish_signed(products[t], x[t].sum));
            sums[t] = s.add(sums[t], s.mul(s.mul(scale, s.splat(x[t].scale)), i));
        }
    }
    sums
}

#[inline(always)]
fn floats<S: Simd, const T: usize>(
    s: S,
    group: &[u8],
    lane: usize,
    width: usize,
    attend: &Attend<'_>,
    first: usize,
) -> [S::F; T] {
    let x: [&[f32]; T] = std::array::from_fn(|t| attend.query(first + t));
    let mut sums = [s.splat(0.0); T];
    for (e, keys) in group.chunks_exact(LANES * width).enumerate() {
        let keys = &keys[lane * width..][..S::LANES * width];
        let keys = if width == 2 { s.load_half(keys) } else { s.load_bytes(keys) };
        for t in 0..T {
            sums[t] = s.add(sums[t], s.mul(keys, s.splat(x[t][e])));
        }
    }
    sums
}
