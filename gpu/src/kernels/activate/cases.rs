//! Gate functions over ordinary, saturated and broken gates.

use fanlight_messages::layout::SlabLayout;

use super::{Bindings, Params, Variant, twin};
use crate::kernels::testing::quantised::{Element, Outputs, Planes};
use crate::kernels::testing::{Place, block_on, control, ended, lab};
use crate::lab::{Lab, Noise};

/// Rows, the last of which is not live and broken.
const ROWS: usize = 4;
const LIVE: u32 = 3;
/// Elements of the vectors buffer before the bias.
const GAP: usize = 12;
/// Gates at which a sigmoid rounds, saturates, underflows, and where a cube overflows.
const HARD: [f32; 16] =
    [0.0, -0.0, 1e-30, -1e-30, 1.0, -1.0, 16.0, -16.0, 87.3, -87.3, 104.0, -104.0, 1e4, -1e4, 3e13, -3e13];

fn gate_up(columns: usize, noise: &mut Noise) -> Vec<f32> {
    let mut words = noise.units(ROWS * 2 * columns);
    // Row 0 is ordinary, row 1 wide, row 2 hard.
    words[2 * columns..3 * columns].iter_mut().for_each(|x| *x *= 30.0);
    for (i, gate) in words[4 * columns..5 * columns].iter_mut().enumerate() {
        *gate = HARD[i / 32 % HARD.len()] * (1.0 - 0.01 * (i % 32) as f32);
    }
    words[5 * columns..5 * columns + 32].fill(0.0);
    words[6 * columns..].fill(f32::INFINITY);
    words
}

async fn run(
    lab: &Lab,
    variant: Variant,
    gate_up: &[f32],
    bias: Option<&[f32]>,
    control: &[u32],
) -> (Planes, u32) {
    let input = lab.floats(gate_up).await.expect("a buffer");
    let control = lab.words(control).await.expect("a buffer");
    let outputs = Outputs::new(lab, variant.layout, ROWS, variant.keeps_values).await;
    let vectors = lab.floats(bias.unwrap_or(&[0.0; 4])).await.expect("a buffer");
    let bindings = Bindings {
        rows: input.slice(),
        vectors: vectors.slice(),
        output: outputs.bindings(),
        control: control.slice(),
    };
    let params = Params {
        len: variant.layout.blocks * 32,
        bias_offset: GAP as u32,
        has_bias: u32::from(bias.is_some()),
    };
    lab.run(variant, &bindings, params, variant.groups(ROWS as u32)).await.expect("a run");
    outputs.read(lab).await
}

#[test]
fn gates_are_as_the_twin_has_them() {
    let lab = &lab();
    for (columns, gelu, keeps_values) in
        [(2144, false, true), (2144, true, true), (576, false, false), (576, true, false)]
    {
        let layout = SlabLayout::for_columns(columns);
        let variant = Variant { layout, gelu, gated: true, keeps_values };
        let len = columns as usize;
        let words = gate_up(len, &mut Noise::new(u64::from(columns)));
        let row = |n: usize| -> Vec<Element> {
            let at = n * 2 * len;
            (0..len).map(|e| twin::activate(words[at + e], words[at + len + e], gelu)).collect()
        };
        let rows: Vec<_> = (0..ROWS).map(|n| (n < LIVE as usize).then(|| row(n))).collect();
        let name = format!("{columns} columns, gelu {gelu}, keeps values {keeps_values}");
        let place = Place { kernel: "activate", case: &name, what: "", row_len: len };
        let (planes, fault) = block_on(run(lab, variant, &words, None, &control(3, LIVE)));
        planes.assert(place, layout, &rows);
        assert_eq!(fault, 0, "{name}: only a dead row is broken");
        let (planes, _) = block_on(run(lab, variant, &words, None, &ended(3, LIVE)));
        planes.assert_untouched(place);
    }
}

/// Biases of both halves, and rows without a gate. A sum is rounded before the function sees it, so the twin
/// adds in f32 as well.
#[test]
fn rows_have_biases_and_may_lack_a_gate() {
    let lab = &lab();
    for (columns, gelu, gated, has_bias) in [
        (576, false, true, true),
        (2144, true, true, true),
        (576, true, false, false),
        (576, false, false, true),
    ] {
        let layout = SlabLayout::for_columns(columns);
        let variant = Variant { layout, gelu, gated, keeps_values: true };
        let len = columns as usize;
        let row_len = if gated { 2 * len } else { len };
        let words = gate_up(len, &mut Noise::new(3))[..ROWS * row_len].to_vec();
        let vectors = Noise::new(4).units(GAP + row_len);
        let bias = has_bias.then_some(&vectors[..]);
        let element =
            |n: usize, e: usize| words[n * row_len + e] + bias.map_or(0.0, |vectors| vectors[GAP + e]);
        let row = |n: usize| -> Vec<Element> {
            let up = |e| if gated { element(n, len + e) } else { 1.0 };
            (0..len).map(|e| twin::activate(element(n, e), up(e), gelu)).collect()
        };
        let rows: Vec<_> = (0..ROWS).map(|n| (n < LIVE as usize).then(|| row(n))).collect();
        let name = format!("{columns} columns, gelu {gelu}, gated {gated}, bias {has_bias}");
        let place = Place { kernel: "activate", case: &name, what: "", row_len: len };
        let (planes, _) = block_on(run(lab, variant, &words, bias, &control(3, LIVE)));
        planes.assert(place, layout, &rows);
    }
}

/// Broken gates and broken up rows raise the flag; -∞ must not vanish in the sigmoid, nor an overflow of the
/// product.
#[test]
fn a_broken_row_raises_the_flag_and_stays_alone() {
    let lab = &lab();
    let layout = SlabLayout::for_columns(576);
    for gelu in [false, true] {
        let variant = Variant { layout, gelu, gated: true, keeps_values: false };
        let good = gate_up(576, &mut Noise::new(8));
        let (other, fault) = block_on(run(lab, variant, &good, None, &control(3, LIVE)));
        assert_eq!(fault, 0);
        for (gate, up) in [
            (f32::NAN, 1.0),
            (1.0, f32::NAN),
            (f32::INFINITY, 1.0),
            (f32::NEG_INFINITY, 1.0),
            (1.0, f32::NEG_INFINITY),
            (1e30, 1e30),
        ] {
            let mut words = good.clone();
            (words[2 * 576 + 77], words[3 * 576 + 77]) = (gate, up);
            let (planes, fault) = block_on(run(lab, variant, &words, None, &control(3, LIVE)));
            let name = format!("gate {gate}, up {up}, gelu {gelu}");
            assert_eq!(fault, 1 << 1, "{name}: the bit of the row");
            let place = Place { kernel: "activate", case: &name, what: "", row_len: 576 };
            planes.assert_same_beside(place, layout, 1, &other);
        }
    }
}
