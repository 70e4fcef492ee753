//! Every form of attention against plain decoding: split for many tokens, tiled for prompts, tree for drafts.

use fanlight_messages::layout::SlabLayout;
use fanlight_messages::plan::{KvFormat, TREE_ROWS};

use super::cover::Comparison;
use super::{AttentionCase, Verdict, first_difference};
use crate::device::GpuError;
use crate::kernels::attention::{Form, Params, Variant};
use crate::kernels::{Kernel, attention, fold};
use crate::lab::{Lab, LabBuffer, Noise};
use crate::shader::Quantised;
use fanlight_messages::draft::ANCESTOR_STRIDE;

const KV_HEADS: u32 = 2;
/// Five chunks.
const CACHE_ROWS: u32 = 320;
/// Cache lengths before the step: around chunk edges and across a window.
const BASES: [u32; 4] = [3, 60, 64, 250];
/// Positions seen by the windowed cases, and the soft cap of one.
const WINDOWS: [(u32, f32); 2] = [(0, 0.0), (100, 30.0)];
/// Parents of a tree, node 0 first: a chain as deep as drafts go, then shallow nodes, so that a tile of rows
/// begins with its deepest whatever the heads per tile; and a bushy rest.
const PARENTS: [u32; 16] = [0, 0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 9, 1, 11, 13, 0];

/// A head: its length, query heads per KV head, and cache format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Shape {
    head_len: u32,
    heads_per_kv: u32,
    kv_format: KvFormat,
}

/// What is compared with one token after the other, and how many query rows a workgroup of either has.
const FORMS: [Comparands; 4] = [
    Comparands { plain_queries: 1, form: Form::Split, queries: 8 },
    Comparands { plain_queries: 1, form: Form::Tiled, queries: 8 },
    Comparands { plain_queries: 1, form: Form::Tiled, queries: 5 },
    Comparands { plain_queries: 3, form: Form::Tree, queries: 8 },
];

/// A form of attention and how plain decoding is done that it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Comparands {
    /// Query rows per workgroup of plain decoding.
    pub(super) plain_queries: u32,
    /// The form.
    pub(super) form: Form,
    /// Its query rows per workgroup.
    pub(super) queries: u32,
}

/// One form at one head shape, cache length and window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair {
    shape: Shape,
    base: u32,
    window: u32,
    soft_cap: f32,
    comparands: Comparands,
}

/// See [`Comparison::Aspect`]. Head lengths need not meet every form, because they are but a bound of loops
/// there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Aspect {
    /// A head length.
    Head(u32),
    /// Query heads that share a KV head.
    Sharing(u32),
    /// A form and its rows per workgroup, on a cache format.
    Form(Form, u32, KvFormat),
    /// A form at a place among the chunks.
    Base(u32, Form),
    /// A form with a window and a soft cap, or without.
    Window(u32, Form),
}

/// Every pair of these head shapes, a shape's pairs together.
pub(super) fn pairs(shapes: &[AttentionCase]) -> Vec<Pair> {
    shapes.iter().flat_map(|shape| pairs_of(*shape, &BASES, &FORMS)).collect()
}

/// These forms at a head shape and these cache lengths, with a window and without.
pub(super) fn pairs_of(shape: AttentionCase, bases: &[u32], forms: &[Comparands]) -> Vec<Pair> {
    let (head_len, heads_per_kv, kv_format) = shape;
    let shape = Shape { head_len, heads_per_kv, kv_format };
    let mut all = Vec::new();
    for &base in bases {
        for (window, soft_cap) in WINDOWS {
            let pair =
                |comparands: &Comparands| Pair { shape, base, window, soft_cap, comparands: *comparands };
            all.extend(forms.iter().map(pair));
        }
    }
    all
}

impl Pair {
    /// The head shape.
    pub(super) fn case(&self) -> AttentionCase {
        (self.shape.head_len, self.shape.heads_per_kv, self.shape.kv_format)
    }

    fn step(&self) -> Step {
        let tokens = PARENTS.len() as u32;
        Step { base: self.base, window: self.window, soft_cap: self.soft_cap, tokens }
    }

    fn verdict(&self, difference: Option<String>) -> Verdict {
        let Shape { head_len, heads_per_kv, kv_format } = self.shape;
        let (base, window) = (self.base, self.window);
        let what = match self.comparands {
            Comparands { form: Form::Tree, .. } => "Tree".into(),
            Comparands { form, queries, .. } => format!("{form:?} ×{queries}"),
        };
        let name =
            format!("head {head_len}×{heads_per_kv} {kv_format:?} at {base} window {window}, {what} = plain");
        Verdict { name, difference }
    }
}

impl Comparison for Pair {
    type Aspect = Aspect;

    fn aspects(&self) -> Vec<Aspect> {
        let Comparands { form, queries, .. } = self.comparands;
        vec![
            Aspect::Head(self.shape.head_len),
            Aspect::Sharing(self.shape.heads_per_kv),
            Aspect::Form(form, queries, self.shape.kv_format),
            Aspect::Base(self.base, form),
            Aspect::Window(self.window, form),
        ]
    }

    fn pipelines(&self) -> Vec<Kernel> {
        let Comparands { plain_queries, form, queries } = self.comparands;
        let attention = |form, queries| Kernel::Attention(self.shape.variant(form, queries));
        let fold = |form| Kernel::Fold(self.shape.fold(form));
        vec![attention(Form::Split, plain_queries), attention(form, queries), fold(Form::Split), fold(form)]
    }
}

/// Words of one position of one head in the tests' plain order, before they are laid out as a cache.
struct Rows {
    keys: Vec<u32>,
    values: Vec<u32>,
}

/// Compares these pairs, which are of one head shape.
pub(super) async fn compare(lab: &Lab, pairs: &[Pair]) -> Result<Vec<Verdict>, GpuError> {
    let mut verdicts = Vec::new();
    let group = |pair: &Pair| (pair.base, pair.window, pair.comparands.plain_queries);
    for pairs in pairs.chunk_by(|a, b| group(a) == group(b)) {
        verdicts.extend(compare_at(lab, pairs).await?);
    }
    Ok(verdicts)
}

/// Compares these pairs, which are of one head shape, cache length and window and share their plain decoding.
async fn compare_at(lab: &Lab, pairs: &[Pair]) -> Result<Vec<Verdict>, GpuError> {
    let Some(first) = pairs.first() else { return Ok(Vec::new()) };
    let (shape, step) = (first.shape, first.step());
    let seed = shape.head_len * 64 + shape.heads_per_kv;
    let mut noise = Noise::new(u64::from(seed) << 32 | u64::from(step.base) << 16 | u64::from(step.window));
    let queries = lab.floats(&noise.units((step.tokens * shape.query_len()) as usize)).await?;
    let rows = random_rows(&shape, step.base + step.tokens, &mut noise);
    let chain: Vec<u32> = (0..step.base + step.tokens).collect();
    let cache = lay_out(lab, &shape, &rows, &chain, &[]).await?;
    let chained = pairs.iter().map(|pair| pair.comparands).find(|comparands| comparands.form != Form::Tree);
    let plain = match chained {
        Some(comparands) => {
            let plain = Way::plain(comparands.plain_queries);
            run_chain(lab, &shape, &queries, &cache, step, plain).await?
        }
        None => Vec::new(),
    };
    let mut verdicts = Vec::new();
    for pair in pairs {
        let way = Way::all(pair.comparands.form, pair.comparands.queries);
        verdicts.push(pair.verdict(if pair.comparands.form == Form::Tree {
            compare_tree(lab, &shape, &queries, &rows, step, pair.comparands).await?
        } else {
            let got = run(lab, &shape, &queries, &cache, step, way, None).await?;
            first_difference(&plain, &got, shape.query_len() as usize)
        }));
    }
    Ok(verdicts)
}

impl Shape {
    fn query_len(&self) -> u32 {
        self.head_len * self.heads_per_kv * KV_HEADS
    }
    /// Words of a head's row.
    fn row_words(&self) -> u32 {
        match self.kv_format {
            KvFormat::F16 => self.head_len / 2,
            KvFormat::F32 => self.head_len,
        }
    }
    fn variant(&self, form: Form, queries: u32) -> Variant {
        Variant { head_len: self.head_len, kv_format: self.kv_format, form, queries }
    }
    fn fold(&self, form: Form) -> fold::Variant {
        let layout = SlabLayout::for_columns(self.query_len());
        fold::Variant { layout, tree: form == Form::Tree, keeps_values: true }
    }
}

#[derive(Clone, Copy)]
struct Step {
    base: u32,
    window: u32,
    soft_cap: f32,
    tokens: u32,
}

/// How attention is computed: which rows, in which form, by how many query rows a workgroup.
#[derive(Clone, Copy)]
struct Way {
    form: Form,
    queries: u32,
    /// The only token that is computed; else all of them are.
    only: Option<u32>,
}

impl Way {
    fn all(form: Form, queries: u32) -> Self {
        Self { form, queries, only: None }
    }

    /// Plain decoding of the first token.
    fn plain(queries: u32) -> Self {
        Self { form: Form::Split, queries, only: Some(0) }
    }
}

/// Every token of the step by itself, the ones before it as they are.
async fn run_chain(
    lab: &Lab,
    shape: &Shape,
    queries: &LabBuffer,
    cache: &(LabBuffer, LabBuffer),
    step: Step,
    way: Way,
) -> Result<Vec<u32>, GpuError> {
    let mut plain = Vec::new();
    for token in 0..step.tokens {
        let (one, way) = (Step { tokens: token + 1, ..step }, Way { only: Some(token), ..way });
        plain.extend(run(lab, shape, queries, cache, one, way, None).await?);
    }
    Ok(plain)
}

/// The tree in one dispatch against each of its paths decoded plainly.
async fn compare_tree(
    lab: &Lab,
    shape: &Shape,
    queries: &LabBuffer,
    rows: &Rows,
    step: Step,
    comparands: Comparands,
) -> Result<Option<String>, GpuError> {
    let mut ancestors = Vec::new();
    let mut expected = Vec::new();
    for node in 0..step.tokens {
        let path = path_to(node);
        // Decoded plainly, the node sits at its depth with its ancestors before it.
        let mut order: Vec<u32> = (0..step.base).collect();
        order.extend(path.iter().map(|n| step.base + n));
        let cache = lay_out(lab, shape, rows, &order, &[]).await?;
        let depth = path.len() as u32 - 1;
        let at = Step { base: step.base + depth, tokens: 1, ..step };
        let query = row_of(lab, shape, queries, node).await?;
        let plain = Way::plain(comparands.plain_queries);
        expected.extend(run(lab, shape, &query, &cache, at, plain, None).await?);
        let mut row = vec![0; ANCESTOR_STRIDE as usize];
        row[..path.len()].copy_from_slice(&path);
        row[ANCESTOR_STRIDE as usize - 1] = depth;
        ancestors.extend(row);
    }
    let tree: Vec<u32> = (step.base..step.base + step.tokens).collect();
    // The root's row is in the cache already.
    let cached: Vec<u32> = (0..=step.base).collect();
    let cache = lay_out(lab, shape, rows, &cached, &tree).await?;
    let ancestors = lab.words(&ancestors).await?;
    let way = Way::all(Form::Tree, comparands.queries);
    let got = run(lab, shape, queries, &cache, step, way, Some(&ancestors)).await?;
    Ok(first_difference(&expected, &got, shape.query_len() as usize))
}

fn path_to(node: u32) -> Vec<u32> {
    let mut path = vec![node];
    while path[0] != 0 {
        path.insert(0, PARENTS[path[0] as usize]);
    }
    path
}

async fn row_of(lab: &Lab, shape: &Shape, queries: &LabBuffer, node: u32) -> Result<LabBuffer, GpuError> {
    let len = shape.query_len() as usize;
    let all = lab.read(queries, len * PARENTS.len()).await?;
    lab.words(&all[node as usize * len..][..len]).await
}

/// Random halves or floats in ±1.
fn random_rows(shape: &Shape, positions: u32, noise: &mut Noise) -> Rows {
    let words = (positions * KV_HEADS * shape.row_words()) as usize;
    let mut word = || match shape.kv_format {
        // Halves in ±[1/8, 1): exponents 12..15.
        KvFormat::F16 => {
            let half = |bits: u32| (bits & 0x83ff) | ((12 + ((bits >> 10) & 3) % 3) << 10);
            half(noise.bits()) | (half(noise.bits()) << 16)
        }
        KvFormat::F32 => noise.unit().to_bits(),
    };
    let keys = (0..words).map(|_| word()).collect();
    // The last elements of every row are -0: what has no magnitude must not differ in its sign.
    let row_words = shape.row_words() as usize;
    let zero = if shape.kv_format == KvFormat::F16 { 0x8000_8000 } else { 0x8000_0000 };
    let value = |at: usize| if (at + 1).is_multiple_of(row_words) { zero } else { word() };
    Rows { keys, values: (0..words).map(value).collect() }
}

/// A cache whose row `i` is position `order[i]` of `rows`, and whose tree row `j` is position `tree[j]`.
async fn lay_out(
    lab: &Lab,
    shape: &Shape,
    rows: &Rows,
    order: &[u32],
    tree: &[u32],
) -> Result<(LabBuffer, LabBuffer), GpuError> {
    let cache_rows = CACHE_ROWS + TREE_ROWS;
    let words = shape.row_words();
    let mut keys = vec![0; (KV_HEADS * cache_rows * words) as usize];
    let mut values = keys.clone();
    let placed = (0u32..).zip(order).chain((CACHE_ROWS..).zip(tree));
    for (row, position) in placed {
        for head in 0..KV_HEADS {
            for word in 0..words {
                let from = ((position * KV_HEADS + head) * words + word) as usize;
                // Four words (16 bytes) of a position, then the 64 positions of a chunk.
                let chunk = head * (cache_rows / 64) + row / 64;
                let to = ((chunk * (words / 4) + word / 4) * 64 + row % 64) * 4 + word % 4;
                keys[to as usize] = rows.keys[from];
                values[((head * cache_rows + row) * words + word) as usize] = rows.values[from];
            }
        }
    }
    Ok((lab.words(&keys).await?, lab.words(&values).await?))
}

/// Attention and fold of `step.tokens` rows, or of the only one. Gives `[tokens, query_len]` bits.
async fn run(
    lab: &Lab,
    shape: &Shape,
    queries: &LabBuffer,
    cache: &(LabBuffer, LabBuffer),
    step: Step,
    Way { form, queries: queries_per_group, only }: Way,
    ancestors: Option<&LabBuffer>,
) -> Result<Vec<u32>, GpuError> {
    let query_heads = shape.heads_per_kv * KV_HEADS;
    let chunk_count = if form == Form::Tiled { 1 } else { CACHE_ROWS / 64 };
    let (first_node, count) = only.map_or((0, step.tokens), |only| (only, 1));
    let params = Params {
        query_heads,
        kv_heads: KV_HEADS,
        group_first: 0,
        heads_per_kv: shape.heads_per_kv,
        cache_rows: CACHE_ROWS + TREE_ROWS,
        window: step.window,
        chunk_count,
        first_node,
        soft_cap: step.soft_cap,
    };
    let variant = shape.variant(form, queries_per_group);
    let partials = lab.zeros((count * query_heads * chunk_count * (shape.head_len + 2)) as usize).await?;
    let control = lab.words(&[step.base, step.tokens, 4096, 0, 0, 0, 0, 0, 0, 0, 0, 0]).await?;
    let bindings = attention::Bindings {
        query: queries.slice(),
        keys: cache.0.slice(),
        values: cache.1.slice(),
        ancestors: ancestors.map(LabBuffer::slice),
        partials: partials.slice(),
        control: control.slice(),
    };
    let groups = variant.groups(KV_HEADS, CACHE_ROWS / 64, count * shape.heads_per_kv);
    lab.start(variant, &bindings, params, groups).await?;
    let fold = shape.fold(form);
    let fold_params = fold::Params {
        len: shape.query_len(),
        query_heads,
        head_len: shape.head_len,
        window: step.window,
        chunk_count,
        first_node,
    };
    let rows = (first_node + count) as usize;
    let blocks = rows * fold.layout.padded_blocks() as usize;
    let (codes, meta) = (lab.zeros(blocks * 8).await?, lab.zeros(blocks * 2).await?);
    let (values, faults) = (lab.zeros(blocks * 32).await?, lab.zeros(4).await?);
    let output = Quantised {
        out_codes: codes.slice(),
        out_meta: meta.slice(),
        out_values: Some(values.slice()),
        faults: faults.slice(),
    };
    let bindings = fold::Bindings {
        partials: partials.slice(),
        ancestors: ancestors.map(LabBuffer::slice),
        output,
        control: control.slice(),
    };
    lab.start(fold, &bindings, fold_params, fold.groups(count)).await?;
    let all = lab.read(&values, blocks * 32).await?;
    Ok(all[first_node as usize * fold.layout.padded_blocks() as usize * 32..].to_vec())
}
