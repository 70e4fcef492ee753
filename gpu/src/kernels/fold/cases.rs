//! Folds at every chunk edge and window, over partials of which only those that are seen hold numbers; and
//! the quantiser, which a fold of one chunk of weight one feeds exactly.

use fanlight_messages::layout::SlabLayout;

use super::twin::{self, Chunk};
use super::{Bindings, Params, Variant};
use crate::kernels::testing::quantised::{Element, Outputs, Planes};
use crate::kernels::testing::{Place, SENTINEL, block_on, control, ended, lab};
use crate::lab::{Lab, Noise};
use fanlight_messages::draft::ANCESTOR_STRIDE;

/// Chunks of the partials' rows: 320 positions.
const CHUNKS: usize = 5;
/// Largest distance of two chunks' maxima here.
const SPREAD: f64 = 12.0;
/// Roundings of a folded element: each chunk rescales what was folded before it and joins it, two
/// exponentials of a difference that is itself rounded (3 units and 2 per unit of exponent, in Vulkan) and
/// three operations, for the outputs and again for the sum; then one division.
const ROUNDINGS: f64 = CHUNKS as f64 * 2.0 * (12.0 + 6.0 * SPREAD) + 6.0;

struct Case {
    heads: usize,
    head_len: usize,
    committed: u32,
    /// Rows of this dispatch, first of them, and live rows of the step.
    rows: usize,
    first_node: usize,
    live: usize,
    window: usize,
    /// Depth of each node of a tree; chains have none.
    depths: Option<Vec<u32>>,
    keeps_values: bool,
}

impl Case {
    fn layout(&self) -> SlabLayout {
        SlabLayout::for_columns((self.heads * self.head_len) as u32)
    }

    fn position(&self, node: usize) -> usize {
        self.committed as usize + self.depths.as_ref().map_or(node, |depths| depths[node] as usize)
    }

    fn name(&self) -> String {
        let form = if self.depths.is_some() { "tree" } else { "chain" };
        let Self { heads, head_len, committed, first_node, window, .. } = self;
        format!(
            "{form}, {heads} heads of {head_len}, at {committed}, first node {first_node}, window {window}"
        )
    }
}

/// Partials of every row and head, the unseen chunks left as sentinels; and what the output must be.
fn partials(case: &Case, noise: &mut Noise) -> (Vec<u32>, Vec<Option<Vec<Element>>>) {
    let stride = case.head_len + 2;
    let mut words = vec![SENTINEL; case.rows * case.heads * CHUNKS * stride];
    let mut rows = vec![None; case.first_node + case.rows];
    for r in 0..case.rows {
        let node = case.first_node + r;
        if node >= case.live {
            continue;
        }
        let mut row = Vec::new();
        for head in 0..case.heads {
            let chunks: Vec<Chunk> = twin::seen(case.position(node), case.window)
                .map(|index| {
                    let maximum = noise.unit() * (SPREAD / 2.0) as f32;
                    let sum = 1.0 + 30.0 * noise.unit().abs();
                    let chunk = Chunk { output: noise.units(case.head_len), maximum, sum };
                    let at = ((r * case.heads + head) * CHUNKS + index) * stride;
                    let numbers = chunk.output.iter().chain([&chunk.maximum, &chunk.sum]);
                    words[at..].iter_mut().zip(numbers).for_each(|(to, x)| *to = x.to_bits());
                    chunk
                })
                .collect();
            row.extend(twin::fold(&chunks).into_iter().map(|sum| Element::of(sum, ROUNDINGS)));
        }
        rows[node] = Some(row);
    }
    (words, rows)
}

async fn run(lab: &Lab, case: &Case, partials: &[u32], chunk_count: usize, control: &[u32]) -> (Planes, u32) {
    let layout = case.layout();
    let variant = Variant { layout, tree: case.depths.is_some(), keeps_values: case.keeps_values };
    let params = Params {
        len: (case.heads * case.head_len) as u32,
        query_heads: case.heads as u32,
        head_len: case.head_len as u32,
        window: case.window as u32,
        chunk_count: chunk_count as u32,
        first_node: case.first_node as u32,
    };
    let stride = ANCESTOR_STRIDE as usize;
    let mut ancestors = vec![0; 32 * stride];
    for (node, depth) in case.depths.iter().flatten().enumerate() {
        ancestors[node * stride + stride - 1] = *depth;
    }
    let partials = lab.words(partials).await.expect("a buffer");
    let ancestors = lab.words(&ancestors).await.expect("a buffer");
    let control = lab.words(control).await.expect("a buffer");
    let outputs = Outputs::new(lab, layout, case.first_node + case.rows, case.keeps_values).await;
    let bindings = Bindings {
        partials: partials.slice(),
        ancestors: variant.tree.then(|| ancestors.slice()),
        output: outputs.bindings(),
        control: control.slice(),
    };
    lab.run(variant, &bindings, params, variant.groups(case.rows as u32)).await.expect("a run");
    outputs.read(lab).await
}

fn check(lab: &Lab, case: &Case) {
    let name = case.name();
    let mut noise = Noise::new(u64::from(case.committed) * 1000 + case.window as u64);
    let (words, rows) = partials(case, &mut noise);
    let place = Place { kernel: "fold", case: &name, what: "", row_len: 1 };
    let (planes, fault) =
        block_on(run(lab, case, &words, CHUNKS, &control(case.committed, case.live as u32)));
    planes.assert(place, case.layout(), &rows);
    assert_eq!(fault, 0, "{name}");
    let (planes, _) = block_on(run(lab, case, &words, CHUNKS, &ended(case.committed, case.live as u32)));
    planes.assert_untouched(place);
}

/// 67 heads of 32 (a padded row of 2,144) at contexts of 63, 64, 65 and more; four nodes, the last one dead.
#[test]
fn chains_fold_at_chunk_edges_and_windows() {
    let lab = &lab();
    for committed in [0, 61, 62, 63, 64, 126, 255, 316] {
        for window in [0, 1, 64, 65, 100] {
            check(
                lab,
                &Case {
                    heads: 67,
                    head_len: 32,
                    committed,
                    rows: 4,
                    first_node: 0,
                    live: 3,
                    window,
                    depths: None,
                    keeps_values: true,
                },
            );
        }
    }
}

/// Heads of 72, so that blocks of 32 cross heads; rows that begin with node 2 of the step.
#[test]
fn trees_fold_at_the_depth_of_their_nodes() {
    let lab = &lab();
    for committed in [0, 60, 63, 128, 310] {
        for window in [0, 70] {
            check(
                lab,
                &Case {
                    heads: 4,
                    head_len: 72,
                    committed,
                    rows: 5,
                    first_node: 2,
                    live: 6,
                    window,
                    depths: Some(vec![0, 1, 1, 2, 3, 2, 4]),
                    keeps_values: false,
                },
            );
        }
    }
}

/// Rows whose one chunk has weight one come out as they are: the quantiser gets exactly these numbers.
fn exact(rows: &[Vec<f32>]) -> (Case, Vec<u32>, Vec<Option<Vec<Element>>>) {
    let case = Case {
        heads: 2,
        head_len: rows[0].len() / 2,
        committed: 500,
        rows: rows.len(),
        first_node: 0,
        live: rows.len(),
        window: 0,
        depths: None,
        keeps_values: true,
    };
    let head = |half: &[f32]| half.iter().chain([&0.0, &1.0]).map(|x| x.to_bits()).collect::<Vec<_>>();
    let words = rows.iter().flat_map(|row| row.chunks_exact(case.head_len).flat_map(head)).collect();
    let elements = |row: &Vec<f32>| {
        row.iter().map(|x| Element { value: f64::from(*x), bound: f64::from(f32::MIN_POSITIVE) }).collect()
    };
    (case, words, rows.iter().map(elements).map(Some).collect())
}

/// Blocks of zeros, one outlier among tiny numbers, halves of a step, the largest floats, subnormal floats.
#[test]
fn hard_blocks_are_quantised() {
    let lab = &lab();
    let mut noise = Noise::new(12);
    let mut rows: Vec<Vec<f32>> = (0..3).map(|_| noise.units(128)).collect();
    rows[0][..32].fill(0.0);
    rows[0][32..64].fill(-0.0);
    rows[0][64..96].fill(-7.25);
    rows[1][..32].fill(1e-6);
    rows[1][9] = -1000.0;
    // 127 steps of one, and everything else half-way between two codes.
    (0..32).for_each(|i| rows[1][32 + i] = if i == 31 { 127.0 } else { i as f32 + 0.5 });
    rows[1][64..96].iter_mut().for_each(|x| *x *= f32::MAX);
    rows[2][..32].iter_mut().for_each(|x| *x *= 1e-29);
    rows[2][32..64].iter_mut().for_each(|x| *x *= 1e-40);
    rows[2][64] = f32::MAX;
    let (case, words, wanted) = exact(&rows);
    let (planes, fault) = block_on(run(lab, &case, &words, 1, &control(case.committed, 3)));
    let place = Place { kernel: "fold", case: "hard blocks", what: "", row_len: 1 };
    planes.assert(place, case.layout(), &wanted);
    assert_eq!(fault, 0);
}

#[test]
fn a_broken_row_raises_the_flag_and_stays_alone() {
    let lab = &lab();
    let mut noise = Noise::new(13);
    let good: Vec<Vec<f32>> = (0..3).map(|_| noise.units(128)).collect();
    let (case, words, _) = exact(&good);
    let (other, fault) = block_on(run(lab, &case, &words, 1, &control(case.committed, 3)));
    assert_eq!(fault, 0);
    for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut rows = good.clone();
        rows[1][100] = broken;
        let (case, words, _) = exact(&rows);
        let (planes, fault) = block_on(run(lab, &case, &words, 1, &control(case.committed, 3)));
        assert_eq!(fault, 1 << 1, "{broken}: the bit of the row");
        let name = format!("{broken}");
        let place = Place { kernel: "fold", case: &name, what: "", row_len: 1 };
        planes.assert_same_beside(place, case.layout(), 1, &other);
    }
}
