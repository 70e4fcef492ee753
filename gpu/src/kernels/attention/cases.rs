//! Attention in every form against the plain one: head lengths, cache formats, chunk edges, windows, soft
//! caps, head groups, trees, and rows that must not be seen.

use std::collections::BTreeMap;

use fanlight_messages::plan::{KvFormat, TREE_ROWS};

use super::twin::{Row, attend};
use super::{Bindings, Form, Params, Variant};
use crate::kernels::testing::cache::{Cache, Side};
use crate::kernels::testing::{Place, SENTINEL, Wanted, block_on, control, ended, lab};
use crate::lab::{Lab, Noise};
use fanlight_messages::draft::ANCESTOR_STRIDE;

/// KV heads of the model.
const KV_HEADS: usize = 2;
/// Positions of the cache: five chunks.
const POSITIONS: usize = 320;
const CACHE_ROWS: usize = POSITIONS + TREE_ROWS as usize;
/// Parents of a tree's nodes, node 0 first: a chain as deep as drafts go, then shallow nodes, so that a tile
/// of rows begins with its deepest.
const PARENTS: [usize; 12] = [0, 0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 9];

/// Region of the tree rows that this step uses.
const PARITY: usize = 1;

#[derive(Debug, Clone, Copy)]
struct Shape {
    head_len: usize,
    heads_per_kv: usize,
    format: KvFormat,
}

/// A dispatch.
#[derive(Debug, Clone, Copy)]
struct Case {
    shape: Shape,
    form: Form,
    queries: usize,
    committed: usize,
    live: usize,
    /// First token and tokens of the dispatch; those at `live` and beyond are dead.
    first_node: usize,
    tokens: usize,
    window: usize,
    soft_cap: f32,
    /// KV heads of the cache buffer.
    group: (usize, usize),
    /// Multiplies the queries.
    size: f32,
    /// What lies in rows that nobody may see.
    stale: f32,
}

fn path_to(node: usize) -> Vec<usize> {
    let mut path = vec![node];
    while path[0] != 0 {
        path.insert(0, PARENTS[path[0]]);
    }
    path
}

impl Case {
    fn query_heads(&self) -> usize {
        KV_HEADS * self.shape.heads_per_kv
    }

    fn cache(&self) -> Cache {
        let Shape { head_len, format, .. } = self.shape;
        Cache { heads: self.group.1, head_len, rows: CACHE_ROWS, format }
    }

    fn chunk_count(&self) -> usize {
        if self.form == Form::Tiled { 1 } else { POSITIONS / 64 }
    }

    fn position(&self, node: usize) -> usize {
        self.committed + if self.form == Form::Tree { path_to(node).len() - 1 } else { node }
    }

    /// Position → cache row of everything that a node sees.
    fn seen(&self, node: usize) -> BTreeMap<usize, usize> {
        let path = path_to(node % PARENTS.len());
        let position = self.position(node);
        let first = if self.window == 0 { 0 } else { (position + 1).saturating_sub(self.window) };
        (first..=position)
            .map(|p| match (p.checked_sub(self.committed), self.form) {
                // The root is in the cache; the other nodes are in the region that the parity names.
                (Some(depth), Form::Tree) if depth > 0 => (p, POSITIONS + 32 * PARITY + path[depth]),
                _ => (p, p),
            })
            .collect()
    }

    fn ancestors(&self) -> Vec<u32> {
        let mut words = vec![0; 32 * ANCESTOR_STRIDE as usize];
        for (node, row) in words.chunks_exact_mut(ANCESTOR_STRIDE as usize).enumerate().take(PARENTS.len()) {
            let path = path_to(node);
            row.iter_mut().zip(&path).for_each(|(to, node)| *to = *node as u32);
            row[ANCESTOR_STRIDE as usize - 1] = path.len() as u32 - 1;
        }
        words
    }
}

/// Queries `[token][head]`, and the cache rows `[head][row]` with both buffers.
struct Data {
    queries: Vec<Vec<f32>>,
    rows: Vec<Vec<Row>>,
    keys: Vec<u32>,
    values: Vec<u32>,
}

fn data(case: &Case) -> Data {
    let cache = case.cache();
    let len = case.shape.head_len;
    let mut noise = Noise::new((len * 1000 + case.committed) as u64);
    let tokens = case.first_node + case.tokens;
    // Scores of a few units, as trained models have them.
    let size = case.size * 3.0 / (len as f32).sqrt();
    let query = |noise: &mut Noise| noise.units(len).iter().map(|x| x * size).collect();
    let queries = (0..tokens * case.query_heads()).map(|_| query(&mut noise)).collect();
    let mut is_seen = vec![false; CACHE_ROWS];
    (0..case.live).flat_map(|node| case.seen(node).into_values()).for_each(|row| is_seen[row] = true);
    let (mut keys, mut values) = (cache.empty(), cache.empty());
    let mut rows = Vec::new();
    for head in 0..cache.heads {
        let mut of_head = Vec::new();
        for (row, is_seen) in is_seen.iter().enumerate() {
            let numbers = |noise: &mut Noise| -> Vec<f32> {
                let one = |x: &f32| if *is_seen { cache.rounded(*x) } else { case.stale };
                noise.units(len).iter().map(one).collect()
            };
            let new = Row { key: numbers(&mut noise), value: numbers(&mut noise) };
            for e in 0..len {
                cache.write(&mut keys, Side::Keys, (head, row, e), new.key[e]);
                cache.write(&mut values, Side::Values, (head, row, e), new.value[e]);
            }
            of_head.push(new);
        }
        rows.push(of_head);
    }
    Data { queries, rows, keys, values }
}

/// Partials `[token][head][chunk][head_len + 2]` as the twin wants them.
fn wanted(case: &Case, data: &Data) -> Vec<Wanted> {
    let (len, chunks) = (case.shape.head_len, case.chunk_count());
    let mut wanted = vec![Wanted::Untouched; case.tokens * case.query_heads() * chunks * (len + 2)];
    for (at, record) in wanted.chunks_exact_mut(len + 2).enumerate() {
        let (chunk, head, node) = (
            at % chunks,
            at / chunks % case.query_heads(),
            case.first_node + at / chunks / case.query_heads(),
        );
        let kv_head = (head / case.shape.heads_per_kv).checked_sub(case.group.0);
        let Some(kv_head) = kv_head.filter(|kv| *kv < case.group.1 && node < case.live) else { continue };
        let is_here = |p: usize| case.form == Form::Tiled || p / 64 == chunk;
        let seen = case.seen(node);
        let rows: Vec<&Row> =
            seen.iter().filter(|(p, _)| is_here(**p)).map(|(_, row)| &data.rows[kv_head][*row]).collect();
        if rows.is_empty() {
            // A chunk that only other rows of the tile see: the fold does not read it.
            record.fill(Wanted::Anything);
            continue;
        }
        let query = &data.queries[node * case.query_heads() + head];
        let folds = if case.form == Form::Tiled { case.position(node) / 64 + 1 } else { 1 };
        let partial = attend(query, &rows, case.soft_cap, folds);
        record[..len].copy_from_slice(&partial.output);
        (record[len], record[len + 1]) = (partial.maximum, partial.sum);
    }
    wanted
}

async fn run(lab: &Lab, case: &Case, data: &Data, control: &[u32]) -> Vec<u32> {
    let Shape { head_len, heads_per_kv, format } = case.shape;
    let params = Params {
        query_heads: case.query_heads() as u32,
        kv_heads: case.group.1 as u32,
        group_first: case.group.0 as u32,
        heads_per_kv: heads_per_kv as u32,
        cache_rows: CACHE_ROWS as u32,
        window: case.window as u32,
        chunk_count: case.chunk_count() as u32,
        first_node: case.first_node as u32,
        soft_cap: case.soft_cap,
    };
    let variant = Variant {
        head_len: head_len as u32,
        kv_format: format,
        form: case.form,
        queries: case.queries as u32,
    };
    let queries = lab.floats(&data.queries.concat()).await.expect("a buffer");
    let keys = lab.words(&data.keys).await.expect("a buffer");
    let values = lab.words(&data.values).await.expect("a buffer");
    let ancestors = lab.words(&case.ancestors()).await.expect("a buffer");
    let len = case.tokens * case.query_heads() * case.chunk_count() * (head_len + 2);
    let partials = lab.words(&vec![SENTINEL; len]).await.expect("a buffer");
    let control = lab.words(control).await.expect("a buffer");
    let bindings = Bindings {
        query: queries.slice(),
        keys: keys.slice(),
        values: values.slice(),
        ancestors: (case.form == Form::Tree).then(|| ancestors.slice()),
        partials: partials.slice(),
        control: control.slice(),
    };
    let rows = (case.tokens * heads_per_kv) as u32;
    let groups = variant.groups(case.group.1 as u32, (POSITIONS / 64) as u32, rows);
    lab.run(variant, &bindings, params, groups).await.expect("a run");
    lab.read(&partials, len).await.expect("a readback")
}

fn check(lab: &Lab, case: Case) {
    let data = data(&case);
    let name = format!("{case:?}");
    let row_len = case.shape.head_len + 2;
    let place = Place { kernel: "attention", case: &name, what: "partials", row_len };
    let (committed, live) = (case.committed as u32, case.live as u32);
    let mut running = control(committed, live);
    running[4] = (PARITY as u32) << 31;
    place.assert(&wanted(&case, &data), &block_on(run(lab, &case, &data, &running)));
    let got = block_on(run(lab, &case, &data, &ended(committed, live)));
    Place { what: "partials after the end", ..place }.assert_untouched(&got);
}

/// Every edge, window, cap and group of one shape and form.
fn check_all(lab: &Lab, shape: Shape, form: Form, queries: usize) {
    let plain = Case {
        shape,
        form,
        queries,
        committed: 0,
        live: 3,
        first_node: 0,
        tokens: 4,
        window: 0,
        soft_cap: 0.0,
        group: (0, KV_HEADS),
        size: 1.0,
        stale: 1e4,
    };
    let plain =
        if form == Form::Tree { Case { live: PARENTS.len(), tokens: PARENTS.len(), ..plain } } else { plain };
    // Contexts of 63, 64 and 65 positions, inside one chunk and over four.
    for committed in [0, 61, 62, 64, 127, 250] {
        check(lab, Case { committed, ..plain });
        check(lab, Case { committed, window: 100, soft_cap: 30.0, ..plain });
    }
    for window in [1, 63, 64, 65, 129] {
        check(lab, Case { committed: 190, window, ..plain });
    }
    for group in [(0, 1), (1, 1)] {
        check(lab, Case { committed: 70, group, ..plain });
    }
    // Scores of thousands: one row takes all, or the cap flattens them; tanh must not overflow.
    check(lab, Case { committed: 130, size: 1e3, ..plain });
    check(lab, Case { committed: 130, size: 1e3, soft_cap: 40.0, ..plain });
    if form != Form::Tiled {
        check(lab, Case { committed: 62, first_node: 2, tokens: 2, ..plain });
    }
}

const SHAPES: [Shape; 5] = [
    Shape { head_len: 32, heads_per_kv: 1, format: KvFormat::F32 },
    Shape { head_len: 64, heads_per_kv: 3, format: KvFormat::F16 },
    Shape { head_len: 80, heads_per_kv: 2, format: KvFormat::F16 },
    Shape { head_len: 128, heads_per_kv: 4, format: KvFormat::F32 },
    Shape { head_len: 256, heads_per_kv: 2, format: KvFormat::F16 },
];

#[test]
fn split_attention_is_plain_attention() {
    let lab = &lab();
    SHAPES.into_iter().for_each(|shape| check_all(lab, shape, Form::Split, 8));
    [1, 3].into_iter().for_each(|queries| check_all(lab, SHAPES[1], Form::Split, queries));
}

#[test]
fn tiled_attention_is_plain_attention() {
    let lab = &lab();
    SHAPES.into_iter().for_each(|shape| check_all(lab, shape, Form::Tiled, 8));
    check_all(lab, SHAPES[1], Form::Tiled, 5);
}

#[test]
fn tree_attention_is_plain_attention_over_the_ancestors() {
    let lab = &lab();
    // Rows per workgroup fall with the head: a tree's kernels are unrolled by both, and slow to compile on a
    // CPU.
    for (shape, queries) in SHAPES.into_iter().zip([8, 8, 4, 4, 2]) {
        check_all(lab, shape, Form::Tree, queries);
    }
}

/// A broken request may leave NaN and infinities in rows that the next one has not reached yet: it must not
/// see them.
#[test]
fn rows_behind_the_context_do_no_harm() {
    let lab = &lab();
    for (shape, form) in [
        (SHAPES[0], Form::Split),
        (SHAPES[0], Form::Tree),
        (SHAPES[0], Form::Tiled),
        (SHAPES[1], Form::Split),
    ] {
        for stale in [f32::NAN, f32::INFINITY] {
            let tokens = if form == Form::Tree { PARENTS.len() } else { 4 };
            check(
                lab,
                Case {
                    shape,
                    form,
                    queries: 8,
                    committed: 70,
                    live: tokens,
                    first_node: 0,
                    tokens,
                    window: 0,
                    soft_cap: 0.0,
                    group: (0, KV_HEADS),
                    size: 1.0,
                    stale,
                },
            );
        }
    }
}
