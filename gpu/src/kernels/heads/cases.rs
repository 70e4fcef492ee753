//! Heads of every length and cache format: pairings, partial rotation, norms, biases, groups, and what f16
//! cannot hold.

use fanlight_messages::draft::{ANCESTOR_STRIDE, DEPTH_MAX};
use fanlight_messages::plan::KvFormat;

use super::twin::Head;
use super::{
    ADJACENT, BIAS, Bindings, KEY_NORM, Params, QUERY_FACTOR, QUERY_NORM, ROW_NORM, Variant, WRITES_QUERIES,
};
use crate::kernels::testing::cache::{Cache, Side};
use crate::kernels::testing::{Place, SENTINEL, Sum, Wanted, block_on, control, ended, lab};
use crate::lab::{Lab, Noise};

const QUERY_HEADS: usize = 4;
/// Of the model.
const KV_HEADS: usize = 2;
/// Positions of the first row of a step: rows 62, 63, 64 cross a chunk's edge, a fourth is not live.
const COMMITTED: usize = 62;
const LIVE: usize = 3;
const ROWS: usize = 4;
const CACHE_ROWS: usize = 192;
const EPSILON: f32 = 1e-5;
const SCALE: f32 = 0.18;
/// Depths of a tree's nodes: siblings share a position.
const DEPTHS: [usize; ROWS] = [0, 1, 1, 2];
/// Parity 1, so that nodes go to the second region of the tree rows; no row is pending.
const PARITY: u32 = 0x8000_0000;
/// Elements of a q|k|v row beyond the heads.
const MARGIN: usize = 8;
/// Where the vectors begin.
const GAP: usize = 4;
/// The largest finite half.
const HALF_MAX: f64 = 65_504.0;

#[derive(Debug, Clone, Copy)]
struct Case {
    head_len: usize,
    format: KvFormat,
    flags: u32,
    pairs: usize,
    group_first: usize,
    group_heads: usize,
    /// Multiplies the row: 1, or what leaves the range of halves.
    size: f32,
    /// Rows are nodes of a draft tree.
    tree: bool,
}

/// The inputs of a step.
struct Step {
    input: Vec<f32>,
    vectors: Vec<f32>,
    turns: Vec<[f32; 2]>,
}

impl Case {
    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    fn position(&self, row: usize) -> usize {
        COMMITTED + if self.tree { DEPTHS[row] } else { row }
    }

    /// The root's row is that of its position; other nodes have one in the region.
    fn cache_row(&self, row: usize) -> usize {
        if self.tree && row > 0 { CACHE_ROWS - 32 + row } else { self.position(row) }
    }

    fn control(&self) -> Vec<u32> {
        let mut words = control(COMMITTED as u32, LIVE as u32);
        words[4] = PARITY;
        words
    }

    fn input_len(&self) -> usize {
        (QUERY_HEADS + 2 * KV_HEADS) * self.head_len + MARGIN
    }

    fn query_norm(&self) -> usize {
        2 * GAP + self.input_len()
    }

    fn key_norm(&self) -> usize {
        self.query_norm() + QUERY_HEADS * self.head_len
    }

    /// Entries of a position in the table.
    fn stride(&self) -> usize {
        self.pairs + usize::from(self.has(QUERY_FACTOR))
    }

    /// The mean square of all heads of a row from `first` on.
    fn row_mean(&self, step: &Step, row: usize, first: usize, heads: usize) -> f64 {
        let (at, len) = (first * self.head_len, heads * self.head_len);
        let bias = |e: usize| if self.has(BIAS) { f64::from(step.vectors[GAP + at + e]) } else { 0.0 };
        let element = |e: usize| f64::from(step.input[row * self.input_len() + at + e]) + bias(e);
        (0..len).map(|e| element(e).powi(2)).sum::<f64>() / len as f64
    }

    fn variant(&self) -> Variant {
        Variant { head_len: self.head_len as u32, kv_format: self.format, tree: self.tree }
    }

    fn cache(&self) -> Cache {
        Cache { heads: self.group_heads, head_len: self.head_len, rows: CACHE_ROWS, format: self.format }
    }

    fn step(&self) -> Step {
        let mut noise = Noise::new(self.head_len as u64 * 64 + u64::from(self.flags));
        let mut input = noise.units(ROWS * self.input_len());
        input.iter_mut().for_each(|x| *x *= self.size);
        // At and beside the largest half, in the first value head and the first key head.
        if self.size > 1.0 {
            let hard = [65_504.0, -65_504.0, 65_503.9, 65_519.9, 65_520.0, -70_000.0, 1e30, -1e30];
            for head in [QUERY_HEADS + self.group_first, QUERY_HEADS + KV_HEADS + self.group_first] {
                input[head * self.head_len..][..8].copy_from_slice(&hard);
            }
        }
        let angle = |position: usize, pair: usize| {
            position as f64 * 10_000f64.powf(-(pair as f64) / self.pairs as f64)
        };
        let turn = |position: usize, i: usize| match i < self.pairs {
            true => [angle(position, i).cos() as f32, angle(position, i).sin() as f32],
            false => [1.0 + position as f32 / 64.0, 0.0],
        };
        let mut turns: Vec<[f32; 2]> =
            (0..CACHE_ROWS).flat_map(|position| (0..self.stride()).map(move |i| turn(position, i))).collect();
        // Without positions there is a buffer all the same.
        turns.resize(turns.len().max(1), [0.0; 2]);
        Step { input, vectors: noise.units(self.key_norm() + KV_HEADS * self.head_len), turns }
    }

    /// Head `slot` of q|k|v of a row.
    fn head(&self, step: &Step, row: usize, slot: usize) -> Vec<Sum> {
        let is_query = slot < QUERY_HEADS;
        let is_key = (QUERY_HEADS..QUERY_HEADS + KV_HEADS).contains(&slot);
        let at = slot * self.head_len;
        let norm = match (is_query, is_key) {
            (true, _) if self.has(QUERY_NORM) => Some(self.query_norm()),
            (_, true) if self.has(KEY_NORM) => Some(self.key_norm()),
            _ => None,
        };
        let (first, heads) = if is_query { (0, QUERY_HEADS) } else { (QUERY_HEADS, KV_HEADS) };
        let spans = self.has(ROW_NORM);
        let norm = norm.map(|norm| norm + if spans { (slot - first) * self.head_len } else { 0 });
        let position = &step.turns[self.position(row) * self.stride()..];
        let turns = &position[..self.pairs];
        let factor = if self.has(QUERY_FACTOR) { position[self.pairs][0] } else { 1.0 };
        Head {
            input: &step.input[row * self.input_len() + at..][..self.head_len],
            bias: self.has(BIAS).then(|| &step.vectors[GAP + at..][..self.head_len]),
            norm: norm.map(|norm| &step.vectors[norm..][..self.head_len]),
            row_mean: (spans && norm.is_some()).then(|| self.row_mean(step, row, first, heads)),
            epsilon: EPSILON,
            turns: if is_query || is_key { turns } else { &[] },
            adjacent: self.has(ADJACENT),
            scale: if is_query { SCALE * factor } else { 1.0 },
        }
        .run()
    }

    /// Roundings relative to the magnitudes: a norm's sum is a chain over half the head, whose error its root
    /// halves, the rest are a bias, the root, the weights, the rotation and the scale.
    fn roundings(&self) -> f64 {
        16.0 + self.head_len as f64 / 4.0
    }

    /// What the cache must hold of an element. Halves are clamped to their range, then rounded to either
    /// neighbour (WGSL leaves the direction open); subnormal ones may be flushed.
    fn cached(&self, sum: Sum) -> Wanted {
        let Wanted::Near { value, bound } = sum.near(self.roundings(), 1e-37) else {
            return Wanted::Anything;
        };
        if self.format == KvFormat::F32 {
            return Wanted::Near { value, bound };
        }
        if value.abs() - bound >= HALF_MAX {
            return Wanted::Bits((HALF_MAX.copysign(value) as f32).to_bits());
        }
        let unit = (value.abs() / 1024.0).max(6.2e-5);
        Wanted::Near { value: value.clamp(-HALF_MAX, HALF_MAX), bound: bound + unit }
    }
}

struct Answer {
    query: Vec<u32>,
    keys: Vec<u32>,
    values: Vec<u32>,
}

async fn run(lab: &Lab, case: &Case, step: &Step, control: &[u32]) -> Answer {
    let params = Params {
        query_heads: QUERY_HEADS as u32,
        kv_heads: KV_HEADS as u32,
        group_first: case.group_first as u32,
        group_heads: case.group_heads as u32,
        input_len: case.input_len() as u32,
        bias_offset: GAP as u32,
        query_norm_offset: case.query_norm() as u32,
        key_norm_offset: case.key_norm() as u32,
        flags: case.flags,
        pairs: case.pairs as u32,
        cache_rows: CACHE_ROWS as u32,
        epsilon: EPSILON,
        query_scale: SCALE,
    };
    let input = lab.floats(&step.input).await.expect("a buffer");
    let turns = lab.floats(bytemuck::cast_slice(&step.turns)).await.expect("a buffer");
    let vectors = lab.floats(&step.vectors).await.expect("a buffer");
    let query_len = ROWS * QUERY_HEADS * case.head_len;
    let query = lab.words(&vec![SENTINEL; query_len]).await.expect("a buffer");
    let keys = lab.words(&case.cache().empty()).await.expect("a buffer");
    let values = lab.words(&case.cache().empty()).await.expect("a buffer");
    let control = lab.words(control).await.expect("a buffer");
    let mut table = vec![0; ROWS * ANCESTOR_STRIDE as usize];
    let rows = table.chunks_exact_mut(ANCESTOR_STRIDE as usize);
    rows.zip(DEPTHS).for_each(|(row, depth)| row[ANCESTOR_STRIDE as usize - 1] = depth as u32);
    let ancestors = lab.words(&table).await.expect("a buffer");
    let bindings = Bindings {
        input: input.slice(),
        rope: turns.slice(),
        vectors: vectors.slice(),
        query: query.slice(),
        keys: keys.slice(),
        values: values.slice(),
        ancestors: case.tree.then(|| ancestors.slice()),
        control: control.slice(),
    };
    let queries = if case.has(WRITES_QUERIES) { QUERY_HEADS } else { 0 };
    let groups_x = (queries + 2 * case.group_heads) as u32;
    let groups = if case.tree { [groups_x, DEPTH_MAX, 2] } else { [groups_x, ROWS as u32, 1] };
    lab.run(case.variant(), &bindings, params, groups).await.expect("a run");
    let words = case.cache().words();
    Answer {
        query: lab.read(&query, query_len).await.expect("a readback"),
        keys: lab.read(&keys, words).await.expect("a readback"),
        values: lab.read(&values, words).await.expect("a readback"),
    }
}

/// The cache rows of the live rows hold what the twin wants, and nothing else was written.
fn check_cache(case: &Case, step: &Step, place: Place, side: Side, words: &[u32]) {
    let cache = case.cache();
    let (mut wanted, mut got, mut is_written) = (Vec::new(), Vec::new(), vec![false; words.len()]);
    for head in 0..case.group_heads {
        let first = if side == Side::Keys { QUERY_HEADS } else { QUERY_HEADS + KV_HEADS };
        for row in 0..LIVE {
            wanted.extend(
                case.head(step, row, first + case.group_first + head).into_iter().map(|x| case.cached(x)),
            );
            for e in 0..case.head_len {
                got.push(cache.read(words, side, head, case.cache_row(row), e));
                is_written[cache.word(side, head, case.cache_row(row), e)] = true;
            }
        }
    }
    let what = if side == Side::Keys { "keys" } else { "values" };
    Place { what, ..place }.assert(&wanted, &got);
    let others: Vec<u32> = words.iter().zip(&is_written).filter(|(_, w)| !**w).map(|(w, _)| *w).collect();
    Place { what: "cache rows of no live row", row_len: words.len(), ..place }.assert_untouched(&others);
}

fn check(lab: &Lab, case: &Case) {
    let step = case.step();
    let name = format!("{case:?}");
    let place = Place { kernel: "heads", case: &name, what: "query", row_len: case.head_len };
    let got = block_on(run(lab, case, &step, &case.control()));
    let mut query = vec![Wanted::Untouched; got.query.len()];
    if case.has(WRITES_QUERIES) {
        for (slot, head) in query.chunks_exact_mut(case.head_len).enumerate().take(LIVE * QUERY_HEADS) {
            let sums = case.head(&step, slot / QUERY_HEADS, slot % QUERY_HEADS);
            head.iter_mut().zip(sums).for_each(|(to, sum)| *to = sum.near(case.roundings(), 1e-37));
        }
    }
    place.assert(&query, &got.query);
    check_cache(case, &step, place, Side::Keys, &got.keys);
    check_cache(case, &step, place, Side::Values, &got.values);
    let got = block_on(run(lab, case, &step, &ended(COMMITTED as u32, LIVE as u32)));
    for (what, words) in [("query", got.query), ("keys", got.keys), ("values", got.values)] {
        Place { what, ..place }.assert_untouched(&words);
    }
}

fn cases(head_len: usize, format: KvFormat) -> Vec<Case> {
    let half = head_len / 2;
    let plain = Case {
        head_len,
        format,
        flags: WRITES_QUERIES,
        pairs: half,
        group_first: 0,
        group_heads: KV_HEADS,
        size: 1.0,
        tree: false,
    };
    let whole = |flags: u32, pairs: usize| Case { flags: flags | WRITES_QUERIES, pairs, ..plain };
    let mut cases = vec![
        whole(ADJACENT, half),
        whole(BIAS, half),
        whole(QUERY_NORM | KEY_NORM, half / 2),
        whole(ADJACENT | BIAS | QUERY_NORM, half / 4),
        whole(BIAS | KEY_NORM, 1),
        // The second group of a cache cut by heads writes no queries; the first does.
        Case { group_heads: 1, ..whole(BIAS | KEY_NORM, half) },
        Case { flags: ADJACENT | KEY_NORM | BIAS, group_first: 1, group_heads: 1, ..plain },
        Case { flags: KEY_NORM, pairs: half / 2, group_first: 1, group_heads: 1, ..plain },
    ];
    // Report D04: values that a half cannot hold.
    cases.extend([1e5, 7e4].map(|size| Case { size, ..whole(ADJACENT, half / 2) }));
    let spanning = QUERY_NORM | KEY_NORM | ROW_NORM;
    cases.extend([
        // Norms over all heads of a row, also where a cache is cut by heads.
        whole(spanning, half),
        Case { flags: spanning | BIAS, group_first: 1, group_heads: 1, ..plain },
        Case { tree: true, ..whole(spanning | ADJACENT, half) },
        // A query factor behind the pairs, and heads that positions do not touch.
        whole(QUERY_FACTOR | ADJACENT, half),
        Case { tree: true, ..whole(QUERY_FACTOR | KEY_NORM, half / 2) },
        whole(BIAS | KEY_NORM, 0),
    ]);
    cases.push(Case { tree: true, ..whole(BIAS | KEY_NORM, half) });
    cases.push(Case { tree: true, flags: ADJACENT, group_first: 1, group_heads: 1, ..plain });
    cases
}

#[test]
fn heads_of_every_length_reach_a_half_cache() {
    let lab = &lab();
    for head_len in [32, 64, 80, 128, 256] {
        cases(head_len, KvFormat::F16).iter().for_each(|case| check(lab, case));
    }
}

#[test]
fn heads_of_every_length_reach_a_float_cache() {
    let lab = &lab();
    for head_len in [32, 64, 80, 128, 256] {
        cases(head_len, KvFormat::F32).iter().for_each(|case| check(lab, case));
    }
}

/// Accepted rows of the other region, by depth: any nodes, in any order.
const ACCEPTED: [usize; 8] = [1, 4, 2, 31, 17, 30, 3, 9];

/// Copies `pending` accepted rows, at the end of a request too, and touches nothing else.
fn check_copies(lab: &Lab, case: &Case, pending: usize, parity: usize, end: u32) {
    let cache = case.cache();
    let mut noise = Noise::new(pending as u64);
    let before: [Vec<u32>; 2] =
        [0, 1].map(|_| (0..cache.words()).map(|_| noise.bits() & 0x3bff_3bff).collect());
    let mut wanted = before.clone();
    for (side, words) in [Side::Keys, Side::Values].into_iter().zip(&mut wanted) {
        for (depth, node) in ACCEPTED.iter().enumerate().take(pending) {
            let (from, to) = (CACHE_ROWS - 64 + 32 * (1 - parity) + node, COMMITTED - pending + depth);
            for (head, e) in (0..cache.heads).flat_map(|head| (0..case.head_len).map(move |e| (head, e))) {
                let value = f32::from_bits(cache.read(words, side, head, from, e));
                cache.write(words, side, (head, to, e), value);
            }
        }
    }
    let mut control = control(COMMITTED as u32, 0);
    control[3] = end;
    control[4] = (parity as u32) << 31 | pending as u32;
    let packed =
        ACCEPTED.iter().take(pending).enumerate().map(|(d, node)| (*node as u64) << (8 * d)).sum::<u64>();
    (control[9], control[10]) = (packed as u32, (packed >> 32) as u32);
    let got = block_on(async {
        let control = lab.words(&control).await.expect("a buffer");
        let [keys, values] =
            [lab.words(&before[0]).await, lab.words(&before[1]).await].map(|b| b.expect("a buffer"));
        let other = lab.zeros(4096).await.expect("a buffer");
        let query = lab.zeros(4096).await.expect("a buffer");
        let bindings = Bindings {
            input: other.slice(),
            rope: other.slice(),
            vectors: other.slice(),
            query: query.slice(),
            keys: keys.slice(),
            values: values.slice(),
            ancestors: Some(other.slice()),
            control: control.slice(),
        };
        let params = Params {
            query_heads: QUERY_HEADS as u32,
            kv_heads: KV_HEADS as u32,
            group_first: 0,
            group_heads: KV_HEADS as u32,
            cache_rows: CACHE_ROWS as u32,
            flags: WRITES_QUERIES,
            ..bytemuck::Zeroable::zeroed()
        };
        let groups = [(QUERY_HEADS + 2 * KV_HEADS) as u32, DEPTH_MAX, 2];
        lab.run(case.variant(), &bindings, params, groups).await.expect("a run");
        let read = async |buffer| lab.read(buffer, cache.words()).await.expect("a readback");
        [read(&keys).await, read(&values).await]
    });
    let name = format!("{pending} pending, parity {parity}, end {end}, {:?}", case.format);
    for ((wanted, got), what) in wanted.iter().zip(&got).zip(["keys", "values"]) {
        let bits: Vec<Wanted> = wanted.iter().copied().map(Wanted::Bits).collect();
        Place { kernel: "heads tree", case: &name, what, row_len: got.len() }.assert(&bits, got);
    }
}

#[test]
fn accepted_rows_reach_the_cache() {
    let lab = &lab();
    for format in [KvFormat::F16, KvFormat::F32] {
        let case = Case { tree: true, ..cases(32, format)[0] };
        for (pending, parity, end) in
            [(0, 0, 0), (1, 0, 0), (1, 1, 0), (4, 1, 2), (5, 0, 1), (8, 1, 3), (8, 0, 0)]
        {
            check_copies(lab, &case, pending, parity, end);
        }
    }
}
