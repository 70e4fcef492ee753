//! Norms of ordinary, zero, huge, tiny and broken rows.

use fanlight_messages::layout::SlabLayout;

use super::{Bindings, DELTA_BIAS, HAS_DELTA, PLAIN, POST_NORM, Params, Variant, twin};
use crate::kernels::testing::quantised::{Element, Outputs, Planes};
use crate::kernels::testing::{Place, Wanted, block_on, control, ended, lab};
use crate::lab::{Lab, Noise};

/// Rows, the last of which is not live.
const ROWS: usize = 6;
const LIVE: u32 = 5;
const EPSILON: f32 = 1e-6;
/// Elements of the vectors buffer before the weights, and between them and the post norm's.
const GAP: usize = 12;

/// Roundings of an output element relative to the magnitude of its terms: a sum of squares is a chain of at
/// most 16 fmas, 16 sums and 16 more, whose error the square root halves; with the mean, the reciprocal root
/// (2 units in Vulkan) and two products that is 32 per norm. The residual's own error enters the second sum
/// again: 3 · 32 in all.
const ROUNDINGS: f64 = 96.0;

#[derive(Clone, Copy)]
struct Case {
    columns: u32,
    keeps_values: bool,
    has_delta: bool,
    has_post_norm: bool,
    has_bias: bool,
    scale: f32,
    /// The output is not normalised.
    is_plain: bool,
}

impl Case {
    fn new(columns: u32, keeps_values: bool, has_delta: bool, has_post_norm: bool) -> Self {
        let (has_bias, scale, is_plain) = (false, 1.0, false);
        Self { columns, keeps_values, has_delta, has_post_norm, has_bias, scale, is_plain }
    }
}

/// The inputs of a batch: residual and delta `[ROWS, columns]`, norm weights.
struct Batch {
    residual: Vec<f32>,
    delta: Vec<f32>,
    vectors: Vec<f32>,
}

/// Ordinary · zeros · report D04 (800 and 70,000 among small ones) · huge · tiny (ε rules) · dead, and NaN.
fn batch(columns: usize, noise: &mut Noise) -> Batch {
    let mut residual = noise.units(ROWS * columns);
    let mut delta = noise.units(ROWS * columns);
    for (row, factor) in [(1, 0.0), (3, 1e15), (4, 1e-12)] {
        residual[row * columns..][..columns].iter_mut().for_each(|x| *x *= factor);
        delta[row * columns..][..columns].iter_mut().for_each(|x| *x *= factor);
    }
    residual[2 * columns + 5] = 800.0;
    residual[2 * columns + columns - 1] = 70_000.0;
    // A block of zeros in an ordinary row.
    residual[32..64].fill(0.0);
    delta[32..64].fill(0.0);
    residual[5 * columns..].fill(f32::NAN);
    let vectors = noise.units(3 * (GAP + columns)).iter().map(|x| 1.0 + 0.5 * x).collect();
    Batch { residual, delta, vectors }
}

struct Answer {
    residual: Vec<u32>,
    planes: Planes,
    fault: u32,
}

async fn run(lab: &Lab, case: &Case, batch: &Batch, control: &[u32]) -> Answer {
    let layout = SlabLayout::for_columns(case.columns);
    let variant = Variant { layout, keeps_values: case.keeps_values };
    let flag = |on: bool, bit: u32| if on { bit } else { 0 };
    let params = Params {
        len: case.columns,
        weight_offset: GAP as u32,
        post_norm_offset: 2 * GAP as u32 + case.columns,
        delta_bias_offset: 3 * GAP as u32 + 2 * case.columns,
        flags: flag(case.has_delta, HAS_DELTA)
            | flag(case.has_post_norm, POST_NORM)
            | flag(case.has_bias, DELTA_BIAS)
            | flag(case.is_plain, PLAIN),
        epsilon: EPSILON,
        inverse_len: 1.0 / case.columns as f32,
        delta_scale: case.scale,
    };
    let residual = lab.floats(&batch.residual).await.expect("a buffer");
    let delta = lab.floats(&batch.delta).await.expect("a buffer");
    let vectors = lab.floats(&batch.vectors).await.expect("a buffer");
    let control = lab.words(control).await.expect("a buffer");
    let outputs = Outputs::new(lab, layout, ROWS, case.keeps_values).await;
    let bindings = Bindings {
        residual: residual.slice(),
        delta: delta.slice(),
        vectors: vectors.slice(),
        output: outputs.bindings(),
        control: control.slice(),
    };
    lab.run(variant, &bindings, params, [ROWS as u32, 1, 1]).await.expect("a run");
    let (planes, fault) = outputs.read(lab).await;
    Answer { residual: lab.read(&residual, batch.residual.len()).await.expect("a readback"), planes, fault }
}

fn check(lab: &Lab, case: &Case) {
    let len = case.columns as usize;
    let batch = batch(len, &mut Noise::new(u64::from(case.columns)));
    let name = format!(
        "{len} columns, delta {}, post norm {}, keeps values {}, bias {}, scale {}, plain {}",
        case.has_delta, case.has_post_norm, case.keeps_values, case.has_bias, case.scale, case.is_plain
    );
    let place = Place { kernel: "normalize", case: &name, what: "residual", row_len: len };
    let mut residual: Vec<Wanted> = batch.residual.iter().map(|x| Wanted::Bits(x.to_bits())).collect();
    let mut rows = vec![None; ROWS];
    for n in 0..LIVE as usize {
        let of = |row: &'_ [f32]| row[n * len..][..len].to_vec();
        let delta = of(&batch.delta);
        let weight = &batch.vectors[GAP..][..len];
        let post_norm = &batch.vectors[2 * GAP + len..][..len];
        let delta_bias = &batch.vectors[3 * GAP + 2 * len..][..len];
        let row = twin::normalize(
            &of(&batch.residual),
            case.has_delta.then_some(twin::Delta {
                row: &delta,
                bias: case.has_bias.then_some(delta_bias),
                post_norm: case.has_post_norm.then_some(post_norm),
                scale: case.scale,
            }),
            (!case.is_plain).then_some(weight),
            EPSILON,
        );
        if case.has_delta {
            // Without a post norm the sum is one rounding, and a bias one more; with one, the norm's 32 come
            // first.
            // A device may round the product of an fma, which a scale of 1 leaves exact.
            let extra = f64::from(u8::from(case.has_bias)) + f64::from(u8::from(case.scale != 1.0));
            let roundings = if case.has_post_norm { 33.0 } else { 1.0 } + extra;
            let wanted = row.residual.iter().map(|sum| sum.near(roundings, 0.0));
            residual[n * len..][..len].iter_mut().zip(wanted).for_each(|(to, w)| *to = w);
        }
        rows[n] = Some(row.output.into_iter().map(|sum| Element::of(sum, ROUNDINGS)).collect());
    }
    let got = block_on(run(lab, case, &batch, &control(3, LIVE)));
    place.assert(&residual, &got.residual);
    got.planes.assert(place, SlabLayout::for_columns(case.columns), &rows);
    assert_eq!(got.fault, 0, "{name}: only a dead row is broken");
    let got = block_on(run(lab, case, &batch, &ended(3, LIVE)));
    let before: Vec<Wanted> = batch.residual.iter().map(|x| Wanted::Bits(x.to_bits())).collect();
    Place { what: "residual after the end", ..place }.assert(&before, &got.residual);
    got.planes.assert_untouched(place);
}

/// One block, one pass, two passes with padding (2,144 columns: 67 blocks in 68).
#[test]
fn rows_of_every_size_are_normalised() {
    let lab = &lab();
    for (columns, keeps_values) in [(32, true), (576, false), (2144, true), (2144, false)] {
        for (has_delta, has_post_norm) in [(false, false), (true, false), (true, true)] {
            check(lab, &Case::new(columns, keeps_values, has_delta, has_post_norm));
        }
    }
}

/// A residual scale, biases of the delta before its norm, and rows that are only quantised.
#[test]
fn deltas_are_biased_and_scaled_and_rows_may_stay_plain() {
    let lab = &lab();
    for columns in [576, 2144] {
        let all = Case::new(columns, true, true, true);
        check(lab, &Case { has_bias: true, has_post_norm: false, ..all });
        check(lab, &Case { has_bias: true, scale: 0.22, ..all });
        check(lab, &Case { scale: 0.22, has_post_norm: false, ..all });
        check(lab, &Case { is_plain: true, ..all });
        check(lab, &Case { is_plain: true, has_delta: false, has_post_norm: false, ..all });
    }
}

/// A NaN or infinity raises the flag, wherever it stands, and touches no other row.
#[test]
fn a_broken_row_raises_the_flag_and_stays_alone() {
    let lab = &lab();
    let case = Case::new(576, false, true, false);
    let layout = SlabLayout::for_columns(case.columns);
    let good = batch(576, &mut Noise::new(9));
    let other = block_on(run(lab, &case, &good, &control(3, LIVE)));
    assert_eq!(other.fault, 0);
    for (broken, in_delta, element) in [
        (f32::NAN, false, 0),
        (f32::INFINITY, false, 575),
        (f32::NEG_INFINITY, true, 300),
        (f32::NAN, true, 31),
    ] {
        let mut batch = batch(576, &mut Noise::new(9));
        let buffer = if in_delta { &mut batch.delta } else { &mut batch.residual };
        buffer[2 * 576 + element] = broken;
        let got = block_on(run(lab, &case, &batch, &control(3, LIVE)));
        let name = format!("{broken} at element {element}, in the delta: {in_delta}");
        assert_eq!(got.fault, 1 << 2, "{name}: the bit of the row");
        let place = Place { kernel: "normalize", case: &name, what: "residual", row_len: 576 };
        place.assert_same_beside(2, &other.residual, &got.residual);
        got.planes.assert_same_beside(place, layout, 2, &other.planes);
    }
}
