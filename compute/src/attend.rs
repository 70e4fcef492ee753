//! Softmax attention of a tile over the cache of one KV head.
//!
//! Positions form chunks of 64. Inside a chunk: scores in base two, their maximum, weights `exp2(s - m)`,
//! their sum in sixteen lanes, the output in order of positions from +0. Chunks are folded left to right:
//! `m' = max(m, m_c)`, `l' = l · exp2(m - m') + l_c · exp2(m_c - m')`, the output likewise.

mod scores;

use crate::cache::{CacheShape, padded, read_value};
use crate::math::{exp2, exp2_one, fold_lanes, soft_cap};
use crate::quantise::{Block, quantise};
use crate::simd::{Kernel, Simd};
use crate::tiles::LANES;

/// Positions of a chunk.
pub const CHUNK_LEN: usize = 64;
/// Nodes of a draft tree, the root included.
pub const NODES_MAX: usize = 32;
/// Deepest node.
pub const DEPTH_MAX: usize = 8;
/// The maximum of no scores.
const NEGATIVE: f32 = -1e30;

/// What a row sees: the cache up to a position, then nodes of the draft tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sight {
    /// Cached positions, from 0 on.
    pub cached: usize,
    /// Its ancestors below the root and itself, by depth.
    pub path: [u8; DEPTH_MAX],
    /// How many of those.
    pub depth: usize,
}

impl Sight {
    /// The row's own position.
    pub fn position(&self) -> usize {
        self.cached + self.depth - 1
    }
}

/// Buffers of one worker.
#[derive(Debug, Clone)]
pub struct Scratch {
    queries: Vec<Block>,
    values: Vec<f32>,
    node_values: Vec<f32>,
    scores: Vec<f32>,
    node_scores: Vec<f32>,
    state: Vec<State>,
    outputs: Vec<f32>,
    chunk_output: Vec<f32>,
}

/// The running maximum and sum of a query.
#[derive(Debug, Clone, Copy)]
struct State {
    maximum: f32,
    sum: f32,
}

impl Scratch {
    /// For up to `queries` query rows of `head_len` elements.
    pub fn new(queries: usize, head_len: usize) -> Self {
        let len = head_len.next_multiple_of(LANES);
        Self {
            queries: vec![Block::ZERO; queries * head_len.div_ceil(32)],
            values: vec![0.0; CHUNK_LEN * len],
            node_values: vec![0.0; NODES_MAX * len],
            scores: vec![0.0; queries * CHUNK_LEN],
            node_scores: vec![0.0; queries * NODES_MAX],
            state: vec![State { maximum: NEGATIVE, sum: 0.0 }; queries],
            outputs: vec![0.0; queries * len],
            chunk_output: vec![0.0; len],
        }
    }

    /// Bytes of all buffers.
    pub fn bytes(queries: usize, head_len: usize) -> u64 {
        let len = head_len.next_multiple_of(LANES);
        let floats = (CHUNK_LEN + NODES_MAX + queries + 1) * len + queries * (CHUNK_LEN + NODES_MAX);
        let blocks = queries * head_len.div_ceil(32) * size_of::<Block>();
        (floats * 4 + blocks + queries * size_of::<State>()) as u64
    }
}

/// Attention of the live rows of a tile with one KV head.
#[derive(Debug)]
pub struct Attend<'a> {
    /// Shape of the cache.
    pub cache: CacheShape,
    /// Keys, then values, of the head.
    pub head: &'a [u8],
    /// Row of the cache that node 0 of a draft tree would have.
    pub nodes_at: usize,
    /// `[room][unit]`: the row's q heads first.
    pub heads: &'a [f32],
    /// Elements of a unit: q heads, key, value.
    pub unit_len: usize,
    /// Query heads.
    pub group: usize,
    /// What each live row sees.
    pub sights: &'a [Sight],
    /// Positions seen, the own one included.
    pub window: Option<usize>,
    /// `cap · tanh(score / cap)`, log2(e) included.
    pub soft_cap: Option<f32>,
    /// Buffers.
    pub scratch: &'a mut Scratch,
    /// `[room][q heads]`.
    pub out: &'a mut [f32],
}

impl Kernel for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let queries = self.sights.len() * self.group;
        let len = self.cache.head_len.next_multiple_of(LANES);
        for state in &mut self.scratch.state[..queries] {
            *state = State { maximum: NEGATIVE, sum: 0.0 };
        }
        self.scratch.outputs[..queries * len].fill(0.0);
        self.quantise_queries(s, queries);
        if self.sights.iter().any(|sight| sight.depth > 0) {
            self.read_nodes(s, queries, len);
        }
        let first =
            |sight: &Sight| self.window.map_or(0, |window| (sight.position() + 1).saturating_sub(window));
        let lowest = self.sights.iter().map(first).min().unwrap_or(0) / CHUNK_LEN;
        let highest = self.sights.iter().map(Sight::position).max().unwrap_or(0) / CHUNK_LEN;
        let cached = self.sights.iter().map(|sight| sight.cached).max().unwrap_or(0);
        for chunk in lowest..=highest {
            let start = chunk * CHUNK_LEN;
            let filled = cached.saturating_sub(start).min(CHUNK_LEN);
            let (_, values) = self.head.split_at(self.cache.key_bytes());
            for (place, to) in self.scratch.values.chunks_exact_mut(len).take(filled).enumerate() {
                read_value(s, self.cache, values, start + place, to);
            }
            scores::chunk(s, &mut self, queries, start, filled);
            for query in 0..queries {
                self.fold(s, query, start, len);
            }
        }
        self.finish(queries, len);
    }
}

impl Attend<'_> {
    /// Query `query` of the tile.
    #[inline(always)]
    fn query(&self, query: usize) -> &[f32] {
        let (row, head) = (query / self.group, query % self.group);
        let len = self.cache.head_len;
        &self.heads[row * self.unit_len + head * len..][..len]
    }

    #[inline(always)]
    fn quantise_queries<S: Simd>(&mut self, s: S, queries: usize) {
        if self.cache.format != crate::cache::CacheFormat::Q8 {
            return;
        }
        for query in 0..queries {
            for block in 0..self.cache.blocks() {
                let x = padded(self.query(query), block);
                // What is not finite was told by the heads' own check.
                quantise(s, &x, &mut self.scratch.queries[block * queries + query]);
            }
        }
    }

    /// Scores and values of all nodes of the tree.
    #[inline(always)]
    fn read_nodes<S: Simd>(&mut self, s: S, queries: usize, len: usize) {
        let (_, values) = self.head.split_at(self.cache.key_bytes());
        for (node, to) in self.scratch.node_values.chunks_exact_mut(len).enumerate() {
            read_value(s, self.cache, values, self.nodes_at + node, to);
        }
        scores::nodes(s, self, queries);
    }

    /// Folds a chunk into the state of a query.
    #[inline(always)]
    fn fold<S: Simd>(&mut self, s: S, query: usize, start: usize, len: usize) {
        let sight = self.sights[query / self.group];
        let position = sight.position();
        let first = self.window.map_or(0, |window| (position + 1).saturating_sub(window)).max(start);
        let end = (position + 1).min(start + CHUNK_LEN);
        if first >= end {
            return;
        }
        let scratch = &mut *self.scratch;
        let scores = &mut scratch.scores[query * CHUNK_LEN..][..CHUNK_LEN];
        // From here on the positions are nodes.
        let cached = sight.cached.clamp(first, end);
        let node = |position: usize| usize::from(sight.path[position - sight.cached]);
        for position in cached..end {
            scores[position - start] = scratch.node_scores[query * NODES_MAX + node(position)];
        }
        let (low, high) = (first - start, end - start);
        scores[..low].fill(NEGATIVE);
        scores[high..].fill(NEGATIVE);
        if let Some(cap) = self.soft_cap {
            soft_cap(s, scores, cap);
        }
        let mut lanes = s.splat(NEGATIVE);
        for part in scores.chunks_exact(S::LANES) {
            lanes = s.max(lanes, s.load(part));
        }
        let mut maxima = [NEGATIVE; LANES];
        s.store(&mut maxima, lanes);
        let maximum = maxima.iter().fold(NEGATIVE, |max, x| if *x > max { *x } else { max });
        for part in scores.chunks_exact_mut(S::LANES) {
            let weight = exp2(s, s.sub(s.load(part), s.splat(maximum)));
            s.store(part, weight);
        }
        scores[..low].fill(0.0);
        scores[high..].fill(0.0);
        let mut sums = [0.0; LANES];
        for part in scores.chunks_exact(LANES) {
            for lane in (0..LANES).step_by(S::LANES) {
                let sum = s.add(s.load(&sums[lane..][..S::LANES]), s.load(&part[lane..][..S::LANES]));
                s.store(&mut sums[lane..][..S::LANES], sum);
            }
        }
        let sum = fold_lanes(sums);
        let cached_rows = low..cached - start;
        weigh(
            s,
            &scores[cached_rows.clone()],
            scratch.values[cached_rows.start * len..].chunks_exact(len),
            true,
            &mut scratch.chunk_output,
        );
        let nodes = (cached..end).map(|position| &scratch.node_values[node(position) * len..][..len]);
        weigh(s, &scores[cached - start..high], nodes, false, &mut scratch.chunk_output);
        let state = &mut scratch.state[query];
        let top = if maximum > state.maximum { maximum } else { state.maximum };
        let (old, new) = (exp2_one(s, state.maximum - top), exp2_one(s, maximum - top));
        *state = State { maximum: top, sum: state.sum * old + sum * new };
        let outputs = scratch.outputs[query * len..][..len].chunks_exact_mut(S::LANES);
        for (output, chunk) in outputs.zip(scratch.chunk_output.chunks_exact(S::LANES)) {
            let kept = s.mul(s.load(output), s.splat(old));
            s.store(output, s.add(kept, s.mul(s.load(chunk), s.splat(new))));
        }
    }

    #[inline(always)]
    fn finish(&mut self, queries: usize, len: usize) {
        let head_len = self.cache.head_len;
        for query in 0..queries {
            let inverse = 1.0 / self.scratch.state[query].sum;
            let outputs = &self.scratch.outputs[query * len..][..head_len];
            for (to, output) in self.out[query * head_len..][..head_len].iter_mut().zip(outputs) {
                *to = output * inverse;
            }
        }
    }
}

/// Adds weights times rows in order, from +0 or going on.
#[inline(always)]
fn weigh<'v, S: Simd>(
    s: S,
    weights: &[f32],
    rows: impl Iterator<Item = &'v [f32]> + Clone,
    is_first: bool,
    out: &mut [f32],
) {
    // Four registers at a time: a weight is spread once for each.
    for (part, out) in out.chunks_mut(4 * S::LANES).enumerate() {
        let start = part * 4 * S::LANES;
        let mut sums = [s.splat(0.0); 4];
        if !is_first {
            for (sum, out) in sums.iter_mut().zip(out.chunks_exact(S::LANES)) {
                *sum = s.load(out);
            }
        }
        for (weight, row) in weights.iter().zip(rows.clone()) {
            let weight = s.splat(*weight);
            for (sum, value) in sums.iter_mut().zip(row[start..].chunks_exact(S::LANES)) {
                *sum = s.add(*sum, s.mul(weight, s.load(value)));
            }
        }
        for (sum, out) in sums.iter().zip(out.chunks_exact_mut(S::LANES)) {
            s.store(out, *sum);
        }
    }
}
