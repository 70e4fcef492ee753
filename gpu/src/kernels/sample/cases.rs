//! Draws with every combination of cuts, over ties, peaks and the largest vocabulary, at many positions.

use fanlight_messages::draft::ANCESTOR_STRIDE;
use fanlight_messages::sampling::{SELECTION_ROW_WORDS, Sampling, SamplingOptions};

use super::twin::{Stays, candidates, philox};
use super::{Bindings, Params, Variant};
use crate::kernels::accept::Form;
use crate::kernels::testing::{SENTINEL, block_on, control, ended, lab};
use crate::kernels::{choose, weigh};
use crate::lab::{Lab, Noise};

/// Rows that share their logits: each follows as many tokens as its number says.
const ROWS: u32 = 8;
/// Positions of the context before them.
const COMMITTED: u32 = 1000;

/// The slices that the draw leaves of rows with equal logits, and their ids: one a row.
async fn run(lab: &Lab, row: &[f32], options: &SamplingOptions, form: Form, control: &[u32]) -> Vec<u32> {
    let sampling = Sampling::new(options.clone()).expect("options that are served");
    let (len, rows) = (row.len() as u32, ROWS as usize);
    let logits = lab.floats(&row.repeat(rows)).await.expect("a buffer");
    let partials = choose::slices(row).concat().repeat(rows);
    let partials = lab.words(&partials).await.expect("a buffer");
    let mut ancestors = vec![0; rows * ANCESTOR_STRIDE as usize];
    for (depth, words) in (0..).zip(ancestors.chunks_exact_mut(ANCESTOR_STRIDE as usize)) {
        words[ANCESTOR_STRIDE as usize - 1] = depth;
    }
    let ancestors = lab.words(&ancestors).await.expect("a buffer");
    let selection = lab.zeros(rows * SELECTION_ROW_WORDS as usize).await.expect("a buffer");
    let words = lab.words(&sampling.words(0)).await.expect("a buffer");
    let control = lab.words(control).await.expect("a buffer");
    let weighed = weigh::Bindings {
        logits: logits.slice(),
        partials: partials.slice(),
        selection: selection.slice(),
        sampling: words.slice(),
        control: control.slice(),
    };
    let drawn = Bindings {
        logits: logits.slice(),
        partials: partials.slice(),
        selection: selection.slice(),
        ancestors: ancestors.slice(),
        sampling: words.slice(),
        control: control.slice(),
    };
    let passes = weigh::passes(&sampling, len);
    let grid = weigh::grid(len, ROWS);
    for params in &passes {
        lab.run(weigh::Variant, &weighed, *params, grid).await.expect("a run");
    }
    let stage = passes.last().map_or(0, |pass| pass.stage);
    let params = Params { len, form: form as u32, passes: passes.len() as u32, stage };
    lab.run(Variant, &drawn, params, grid).await.expect("a run");
    lab.read(&partials, rows * choose::SLICES as usize * 4).await.expect("a readback")
}

/// The choice that accept makes of a row's slices.
fn choice(slices: &[u32]) -> Option<u32> {
    let slices = slices.chunks_exact(4).filter(|slice| slice[1] != u32::MAX);
    let best = slices.map(|slice| (f32::from_bits(slice[0]), slice[1]));
    best.reduce(|a, b| if b.0 > a.0 { b } else { a }).map(|(_, id)| id)
}

fn check(lab: &Lab, case: &str, row: &[f32], options: &SamplingOptions) {
    let words = block_on(run(lab, row, options, Form::Tree, &control(COMMITTED, ROWS)));
    for (depth, slices) in (0..).zip(words.chunks_exact(choose::SLICES as usize * 4)) {
        let id = choice(slices).unwrap_or_else(|| panic!("{case}: nothing stays")) as usize;
        let all = candidates(row, COMMITTED + depth + 1, options);
        let best = all.iter().filter(|c| c.stays == Stays::Yes).map(|c| c.score).fold(f64::MIN, f64::max);
        let chosen = all[id];
        assert_ne!(chosen.stays, Stays::No, "{case}: token {id} at depth {depth}, {options:?}");
        // The logit over the temperature is rounded, and so is its sum with the noise.
        let rounding = 1e-5 + f64::from(row[id].abs()) / options.temperature / f64::from(1 << 22);
        assert!(
            chosen.score >= best - rounding,
            "{case}: token {id} at depth {depth} scores {}, {best} is there; {options:?}",
            chosen.score
        );
    }
}

/// Every cut, alone and together, each at a temperature and from a seed.
fn all_options() -> Vec<SamplingOptions> {
    let one = |temperature, (top_k, top_p, min_p), seed| {
        let rest = SamplingOptions::default();
        SamplingOptions { temperature, top_k, top_p, min_p, seed, ..rest }
    };
    vec![
        one(0.7, (0, 1.0, 0.0), 0),
        one(1.0, (40, 1.0, 0.0), u64::MAX),
        one(3.0, (0, 0.9, 0.0), 42),
        one(1.0, (0, 1.0, 0.1), u64::from(u32::MAX)),
        one(2.0, (40, 0.7, 0.05), 1 << 53),
        one(1.0, (1, 0.0, 1.0), 7),
    ]
}

#[test]
fn draws_are_those_of_the_twin() {
    let lab = &lab();
    let mut noise = Noise::new(3);
    let mut wide =
        |len: usize, scale: f32| noise.units(len).into_iter().map(|x| scale * x).collect::<Vec<f32>>();
    let few: Vec<f32> = wide(3000, 4.0).into_iter().map(f32::round).collect();
    let rows = [
        ("four", vec![2.0, 1.5, 1.0, 0.5]),
        ("one", vec![-7.0]),
        ("noise", wide(5000, 12.0)),
        ("few values, many ties", few),
        ("all equal", vec![1.25; 1001]),
    ];
    for options in &all_options() {
        for (case, row) in &rows {
            check(lab, case, row, options);
        }
    }
    let large = wide(262_144, 6.0);
    check(lab, "largest vocabulary", &large, &all_options()[4]);
    // Report F06: a temperature near 0 takes the most likely token and divides nothing by zero.
    let cold = SamplingOptions { temperature: 1e-9, ..SamplingOptions::default() };
    let words = block_on(run(lab, &rows[2].1, &cold, Form::Tree, &control(COMMITTED, ROWS)));
    let best = choose::slices(&rows[2].1).concat();
    assert_eq!(choice(&words[..256]), choice(&best));
}

/// A choice belongs to its position: the same for a prompt's end, a single token and a node of a tree.
#[test]
fn the_same_position_draws_the_same_token_in_every_form() {
    let lab = &lab();
    let row = Noise::new(4).units(2000);
    let options = SamplingOptions { temperature: 1.0, seed: 9, ..SamplingOptions::default() };
    let first = |form, control: &[u32]| {
        let words = block_on(run(lab, &row, &options, form, control));
        words.chunks_exact(256).map(choice).collect::<Vec<_>>()
    };
    let tree = first(Form::Tree, &control(COMMITTED, ROWS));
    for depth in 0..ROWS {
        let plain = first(Form::Plain, &control(COMMITTED + depth, 1))[0];
        assert_eq!(plain, tree[depth as usize], "depth {depth}");
    }
    assert_eq!(first(Form::Prompt, &control(COMMITTED - 5, 6))[0], tree[0], "a prompt of six");
    let distinct: std::collections::BTreeSet<_> = tree.iter().collect();
    assert!(distinct.len() > 5, "positions draw apart: {tree:?}");
}

#[test]
fn infinite_logits_and_nan_give_tokens_that_exist() {
    let lab = &lab();
    let drawn = |row: &[f32], options: &SamplingOptions| {
        choice(&block_on(run(lab, row, options, Form::Plain, &control(COMMITTED, 1)))[..256])
    };
    let mut endless = Noise::new(5).units(500);
    endless[77] = f32::INFINITY;
    endless[78] = f32::NEG_INFINITY;
    let mut broken = vec![f32::NAN; 500];
    broken[123] = -3.0;
    for options in &all_options() {
        assert_eq!(drawn(&endless, options), Some(77), "{options:?}");
        for row in [&broken, &vec![f32::NAN; 500]] {
            assert!(drawn(row, options).is_some_and(|id| id < 500), "{options:?}");
        }
    }
}

#[test]
fn rows_that_are_not_live_and_ended_runs_are_left_alone() {
    let lab = &lab();
    let row = vec![1.0; 300];
    let before = choose::slices(&row).concat();
    let options = SamplingOptions { temperature: 1.0, ..SamplingOptions::default() };
    let words = block_on(run(lab, &row, &options, Form::Tree, &ended(9, ROWS)));
    assert!(words.chunks_exact(256).all(|slices| slices == before), "after the end");
    let words = block_on(run(lab, &row, &options, Form::Tree, &control(9, 2)));
    assert!(words.chunks_exact(256).skip(2).all(|slices| slices == before), "rows beyond the second");
    assert!(words.chunks_exact(256).take(2).all(|slices| slices != before));
    assert!(!words.contains(&SENTINEL));
}

/// The generator's published answers (Random123, kat_vectors).
#[test]
fn philox_gives_its_known_answers() {
    assert_eq!(philox([0; 4], [0; 2]), [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]);
    assert_eq!(philox([!0; 4], [!0; 2]), [0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD]);
    let (counter, key) = ([0x243F_6A88, 0x85A3_08D3, 0x1319_8A2E, 0x0370_7344], [0xA409_3822, 0x299F_31D0]);
    assert_eq!(philox(counter, key), [0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1]);
}
