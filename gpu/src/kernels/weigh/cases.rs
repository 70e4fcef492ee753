//! Cuts of top-k and top-p over rows of up to 262,144 logits: known digits, weights left and the last
//! histogram against a plain search. Counts are exact.

use fanlight_messages::sampling::{
    SELECTION_BINS, SELECTION_HISTOGRAM_WORD, SELECTION_ROW_WORDS, SELECTION_STATE_WORDS, Sampling,
    SamplingOptions,
};

use super::{Bindings, Params, Stage, Variant, grid, passes, twin};
use crate::kernels::choose;
use crate::kernels::testing::{block_on, control, ended, lab};
use crate::lab::{Lab, LabBuffer, Noise};

/// Relative error of a mass: the exponent's rounding, up to 31 · 2^-24 · ln 2, and the polynomial's.
const MASS_ERROR: f64 = 2e-6;

/// A row of logits on the device, and what selection leaves of it.
struct Row {
    values: Vec<f32>,
    logits: LabBuffer,
    partials: LabBuffer,
    selection: LabBuffer,
}

impl Row {
    async fn new(lab: &Lab, values: Vec<f32>) -> Self {
        let partials: Vec<u32> = choose::slices(&values).concat();
        Self {
            logits: lab.floats(&values).await.expect("a buffer"),
            partials: lab.words(&partials).await.expect("a buffer"),
            selection: lab.zeros(SELECTION_ROW_WORDS as usize).await.expect("a buffer"),
            values,
        }
    }

    async fn run(&self, lab: &Lab, passes: &[Params], sampling: &Sampling, control: &[u32]) -> Vec<u32> {
        let sampling = lab.words(&sampling.words(0)).await.expect("a buffer");
        let control = lab.words(control).await.expect("a buffer");
        let bindings = Bindings {
            logits: self.logits.slice(),
            partials: self.partials.slice(),
            selection: self.selection.slice(),
            sampling: sampling.slice(),
            control: control.slice(),
        };
        for params in passes {
            lab.run(Variant, &bindings, *params, grid(self.values.len() as u32, 1)).await.expect("a run");
        }
        lab.read(&self.selection, SELECTION_ROW_WORDS as usize).await.expect("a readback")
    }
}

fn sampling(temperature: f64, top_k: u32, top_p: f64) -> Sampling {
    let options = SamplingOptions { temperature, top_k, top_p, ..SamplingOptions::default() };
    Sampling::new(options).expect("options that are served")
}

/// Checks the last digit of a stage whose passes ended with number `last`; sums may be off by `error`.
fn check(case: &str, words: &[u32], last: usize, wanted: &twin::Reached, error: f64) {
    assert!(error < wanted.total / 1000.0, "{case}: the bound says nothing");
    let state = &words[last * SELECTION_STATE_WORDS as usize..];
    assert_eq!(state[0], wanted.prefix, "{case}: digits of the cut");
    let near = |got: f64, wanted: f64| (got - wanted).abs() <= error;
    let left = f64::from(state[1]) + f64::from(state[2]) * 4_294_967_296.0;
    assert!(near(left, wanted.wanted), "{case}: {left} left, {} wanted", wanted.wanted);
    let bins = SELECTION_HISTOGRAM_WORD as usize + last % 3 * 2 * SELECTION_BINS as usize;
    for (digit, weight) in wanted.histogram.iter().enumerate() {
        let (low, high) = (words[bins + 2 * digit], words[bins + 2 * digit + 1]);
        let got = f64::from(low) + f64::from(high) * 4_294_967_296.0;
        assert!(near(got, *weight), "{case}: {got} at digit {digit}, wanted {weight}");
    }
}

/// Rows of every kind: noise, a peak, all equal, few values, both zeros, far apart.
fn rows() -> Vec<(&'static str, Vec<f32>)> {
    let mut noise = Noise::new(8);
    let mut wide =
        |len: usize, scale: f32| -> Vec<f32> { noise.units(len).into_iter().map(|x| scale * x).collect() };
    let mut peaked = wide(151_936, 3.0);
    peaked[77_777] = 30.0;
    let few = wide(5000, 4.0).into_iter().map(f32::round).collect();
    let mut zeros = vec![0.0; 900];
    zeros[..400].fill(-0.0);
    vec![
        ("noise", wide(49_152, 9.0)),
        ("peaked", peaked),
        ("all equal", vec![-2.5; 70_000]),
        ("few values", few),
        ("zeros", zeros),
        ("four", vec![2.0, 1.5, 1.0, 0.5]),
        ("far apart", wide(3000, 1e30)),
        ("largest vocabulary", wide(262_144, 0.01)),
    ]
}

#[test]
fn cuts_are_where_the_twin_finds_them() {
    let lab = &lab();
    for (case, values) in rows() {
        let row = block_on(Row::new(lab, values));
        let len = row.values.len() as u32;
        let largest = row.values.iter().copied().fold(f32::MIN, f32::max);
        let running = control(9, 1);
        for top_k in [1, 2, 3, 40, len / 2, len - 1].into_iter().filter(|k| *k < len) {
            let sampling = sampling(0.8, top_k, 1.0);
            let passes = passes(&sampling, len);
            assert_eq!(passes.len(), 3);
            let words = block_on(row.run(lab, &passes, &sampling, &running));
            let keys: Vec<(u32, f64)> = row.values.iter().map(|value| (twin::key_of(*value), 1.0)).collect();
            let wanted = twin::reach(&keys, f64::from(top_k));
            check(&format!("{case}, top-k {top_k}"), &words, 2, &wanted, 0.0);
        }
        for (temperature, top_p) in [(1.0, 0.9), (0.3, 0.5), (20.0, 0.13)] {
            let sampling = sampling(temperature, 0, top_p);
            let words = block_on(row.run(lab, &passes(&sampling, len), &sampling, &running));
            let mass = |value: &f32| (twin::key_of(*value), twin::mass(*value, largest, temperature).floor());
            let masses: Vec<(u32, f64)> = row.values.iter().map(mass).collect();
            let total: f64 = masses.iter().map(|(_, mass)| mass).sum();
            let name = format!("{case}, top-p {top_p} at {temperature}");
            // Masses are rounded down, so a sum may be off by one for each candidate.
            let error = MASS_ERROR * total + f64::from(len);
            check(&name, &words, 2, &twin::reach(&masses, top_p * total), error);
        }
    }
}

/// Top-p weighs what top-k leaves: all six passes, the next step's first histogram cleared by the last.
#[test]
fn top_p_weighs_what_top_k_leaves() {
    let lab = &lab();
    let row = block_on(Row::new(lab, rows().swap_remove(3).1));
    let len = row.values.len() as u32;
    // 900 of the tokens with the value at the cut are kept, whichever they are.
    let mut sorted = row.values.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let top_k = 900;
    let (temperature, top_p) = (2.0, 0.8);
    let sampling = sampling(temperature, top_k, top_p);
    let passes = passes(&sampling, len);
    assert_eq!(
        passes.iter().map(|p| (p.stage, p.level)).collect::<Vec<_>>(),
        [
            (Stage::Count as u32, 0),
            (Stage::Count as u32, 1),
            (Stage::Count as u32, 2),
            (Stage::Mass as u32, 0),
            (Stage::Mass as u32, 1),
            (Stage::Mass as u32, 2),
        ]
    );
    let kept = &sorted[..top_k as usize];
    let mass = |value: &f32| (twin::key_of(*value), twin::mass(*value, sorted[0], temperature).floor());
    let masses: Vec<(u32, f64)> = kept.iter().map(mass).collect();
    let total: f64 = masses.iter().map(|(_, mass)| mass).sum();
    let wanted = twin::reach(&masses, top_p * total);
    // A second step finds everything as the first did.
    for step in 0..2 {
        let words = block_on(row.run(lab, &passes, &sampling, &control(9, 1)));
        check(&format!("step {step}"), &words, 5, &wanted, MASS_ERROR * total + f64::from(len));
        let first = &words[SELECTION_HISTOGRAM_WORD as usize..][..2 * SELECTION_BINS as usize];
        assert!(first.iter().all(|word| *word == 0), "step {step}: the first histogram is clear");
    }
}

#[test]
fn nothing_is_weighed_after_the_end_or_beyond_the_live_rows() {
    let lab = &lab();
    let row = block_on(Row::new(lab, vec![1.0; 100]));
    let sampling = sampling(1.0, 5, 0.5);
    for control in [ended(9, 1), control(9, 0)] {
        let words = block_on(row.run(lab, &passes(&sampling, 100), &sampling, &control));
        assert!(words.iter().all(|word| *word == 0));
    }
}
