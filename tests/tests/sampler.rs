//! The sampling kernels alone against the exact distribution: chi-square of many draws with a fixed seed, on
//! a vocabulary of four tokens, a peaked and a flat one.

use fanlight_gpu::device::{AdapterPreference, Device};
use fanlight_gpu::kernels::accept::Form;
use fanlight_gpu::kernels::{choose, sample, weigh};
use fanlight_gpu::lab::{Lab, Noise};
use fanlight_messages::control::CONTROL_BYTES;
use fanlight_messages::draft::ANCESTOR_STRIDE;
use fanlight_messages::sampling::{SELECTION_ROW_WORDS, Sampling, SamplingOptions};
use fanlight_tests::reference::Draw;
use futures::executor::block_on;

/// Rows of a dispatch, all with the same logits, each at a position of its own.
const ROWS: u32 = 64;

/// Draws `ROWS` tokens in each of `dispatches` dispatches: positions 1, 2, 3 … of one reply.
fn draws(logits: &[f32], options: &SamplingOptions, dispatches: u32) -> Vec<u32> {
    let device =
        block_on(Device::open(AdapterPreference::HighPerformance)).expect("a GPU adapter is required");
    let lab = Lab::new(&device);
    let sampling = Sampling::new(options.clone()).unwrap();
    let len = logits.len() as u32;
    let mut ancestors = vec![0; (ROWS * ANCESTOR_STRIDE) as usize];
    for (depth, row) in (0..).zip(ancestors.chunks_exact_mut(ANCESTOR_STRIDE as usize)) {
        row[ANCESTOR_STRIDE as usize - 1] = depth;
    }
    let passes = weigh::passes(&sampling, len);
    let stage = passes.last().map_or(0, |pass| pass.stage);
    let record = sample::Params { len, form: Form::Tree as u32, passes: passes.len() as u32, stage };
    let largest = logits.iter().copied().fold(f32::MIN, f32::max);
    let mut drawn = Vec::new();
    block_on(async {
        let rows = logits.repeat(ROWS as usize);
        let logits = lab.floats(&rows).await.unwrap();
        // What the choice leaves of the logits and no draw overwrites: the largest of a slice.
        let mut partials =
            [f32::MIN.to_bits(), u32::MAX, 0, f32::MIN.to_bits()].repeat((ROWS * choose::SLICES) as usize);
        partials.chunks_exact_mut(choose::SLICES as usize * 4).for_each(|row| row[3] = largest.to_bits());
        let partials = lab.words(&partials).await.unwrap();
        let ancestors = lab.words(&ancestors).await.unwrap();
        let selection = lab.zeros((ROWS * SELECTION_ROW_WORDS) as usize).await.unwrap();
        let words = lab.words(&sampling.words(0)).await.unwrap();
        for dispatch in 0..dispatches {
            let mut control = vec![0; (CONTROL_BYTES / 4) as usize];
            control[..3].copy_from_slice(&[dispatch * ROWS, ROWS, 32_768]);
            let control = lab.words(&control).await.unwrap();
            let weighed = weigh::Bindings {
                logits: logits.slice(),
                partials: partials.slice(),
                selection: selection.slice(),
                sampling: words.slice(),
                control: control.slice(),
            };
            let drawn_from = sample::Bindings {
                logits: logits.slice(),
                partials: partials.slice(),
                selection: selection.slice(),
                ancestors: ancestors.slice(),
                sampling: words.slice(),
                control: control.slice(),
            };
            for pass in &passes {
                lab.run(weigh::Variant, &weighed, *pass, weigh::grid(len, ROWS)).await.unwrap();
            }
            lab.run(sample::Variant, &drawn_from, record, weigh::grid(len, ROWS)).await.unwrap();
            let slices = lab.read(&partials, (ROWS * choose::SLICES * 4) as usize).await.unwrap();
            drawn.extend(slices.chunks_exact(choose::SLICES as usize * 4).map(best));
        }
    });
    drawn
}

/// The choice among the slices of a row.
fn best(slices: &[u32]) -> u32 {
    let slices = slices.chunks_exact(4).filter(|slice| slice[1] != u32::MAX);
    let best = slices.map(|slice| (f32::from_bits(slice[0]), slice[1]));
    best.reduce(|a, b| if b.0 > a.0 { b } else { a }).expect("a candidate stays").1
}

/// Pearson's statistic of counts in `bins` (each a token's) against the exact probabilities, with its degrees
/// of freedom. Bins that expect fewer than five draws are merged.
fn chi_square(drawn: &[u32], probabilities: &[f64], bin_of: impl Fn(usize) -> usize) -> (f64, usize) {
    let bins = (0..probabilities.len()).map(&bin_of).max().unwrap_or(0) + 1;
    let mut expected = vec![0.0; bins];
    let mut counted = vec![0.0; bins];
    for (id, probability) in probabilities.iter().enumerate() {
        expected[bin_of(id)] += probability * drawn.len() as f64;
    }
    drawn.iter().for_each(|id| counted[bin_of(*id as usize)] += 1.0);
    let (mut sum, mut used, mut rest) = (0.0, 0, (0.0, 0.0));
    for (expected, counted) in expected.into_iter().zip(counted) {
        if expected < 5.0 {
            rest = (rest.0 + expected, rest.1 + counted);
        } else {
            sum += (counted - expected) * (counted - expected) / expected;
            used += 1;
        }
    }
    if rest.0 > 0.0 {
        sum += (rest.1 - rest.0) * (rest.1 - rest.0) / rest.0;
        used += 1;
    } else {
        assert_eq!(rest.1, 0.0, "a token of probability 0 was drawn");
    }
    (sum, used - 1)
}

/// The value that chi-square exceeds once in a thousand (Wilson and Hilferty 1931).
fn once_in_a_thousand(degrees: usize) -> f64 {
    let n = degrees as f64;
    let t = 1.0 - 2.0 / (9.0 * n) + 3.09 * (2.0 / (9.0 * n)).sqrt();
    n * t * t * t
}

fn check(case: &str, drawn: &[u32], probabilities: &[f64], bin_of: impl Fn(usize) -> usize) {
    let (sum, degrees) = chi_square(drawn, probabilities, bin_of);
    println!("{case}: chi-square {sum:.1} with {degrees} degrees of freedom over {} draws", drawn.len());
    assert!(sum < once_in_a_thousand(degrees), "{case}: {sum} with {degrees} degrees of freedom");
}

/// Report F11: logits 2, 1.5, 1 and 0.5 at temperature 1.
#[test]
fn f11_four_tokens_are_drawn_as_the_softmax_has_them() {
    let logits = [2.0, 1.5, 1.0, 0.5];
    let options = SamplingOptions { temperature: 1.0, seed: 11, ..SamplingOptions::default() };
    let drawn = draws(&logits, &options, 160);
    let exact = Draw::new(&logits, &[], 0, &options).probabilities(1.0);
    check("four tokens", &drawn, &exact, |id| id);
    let wrong = [exact[1], exact[0], exact[2], exact[3]];
    let (sum, degrees) = chi_square(&drawn, &wrong, |id| id);
    assert!(sum > once_in_a_thousand(degrees), "the statistic sees two probabilities exchanged: {sum}");
}

#[test]
fn a_peaked_vocabulary_is_drawn_as_the_cut_softmax_has_it() {
    let logits: Vec<f32> = (0..1000).map(|id| -1.3 * (1.0 + (id * 7 % 1000) as f32).ln()).collect();
    for (case, top_k, top_p) in [("peaked", 0, 1.0), ("peaked, top-k 60 and top-p 0.9", 60, 0.9)] {
        let options =
            SamplingOptions { temperature: 0.9, top_k, top_p, seed: 5, ..SamplingOptions::default() };
        let drawn = draws(&logits, &options, 32);
        check(case, &drawn, &Draw::new(&logits, &[], 0, &options).probabilities(0.9), |id| id);
    }
}

#[test]
fn a_flat_vocabulary_of_150_000_is_drawn_evenly() {
    let logits: Vec<f32> = Noise::new(2).units(150_000).iter().map(|x| 0.5 * x).collect();
    let options = SamplingOptions { temperature: 1.0, seed: 3, ..SamplingOptions::default() };
    let drawn = draws(&logits, &options, 10);
    let exact = Draw::new(&logits, &[], 0, &options).probabilities(1.0);
    check("flat, by place", &drawn, &exact, |id| id / 10_000);
    check("flat, by word of the noise", &drawn, &exact, |id| id % 4);
    check("flat, by probability", &drawn, &exact, |id| ((logits[id] + 0.5) * 15.0).min(14.0) as usize);
}
