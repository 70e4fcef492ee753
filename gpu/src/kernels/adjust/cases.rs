//! Adjusted rows behind prompts, single tokens and nodes of a tree: every id against the plain formula, the
//! hash and untouched logits exactly.

use fanlight_messages::draft::{ANCESTOR_STRIDE, MEMORY_TOKENS};
use fanlight_messages::sampling::{Sampling, SamplingOptions};

use super::{Bindings, Params, Variant, twin};
use crate::kernels::accept::Form;
use crate::kernels::choose;
use crate::kernels::testing::{Place, SENTINEL, Wanted, block_on, control, ended, lab};
use crate::lab::{Lab, Noise};

/// Roundings of f32 operations that a logit goes through: bias, penalty, count, presence.
const ROUNDINGS: f64 = 6.0;

struct Case {
    name: &'static str,
    form: Form,
    /// The context up to the root or to the end of the prompt.
    context: Vec<u32>,
    generated_from: usize,
    /// Tokens of the nodes from 1 on, and parents.
    nodes: Vec<(u32, usize)>,
    options: SamplingOptions,
}

impl Case {
    /// What a row follows.
    fn context_of(&self, row: usize) -> Vec<u32> {
        let mut path = Vec::new();
        let mut node = row;
        while node != 0 {
            path.insert(0, self.nodes[node - 1].0);
            node = self.nodes[node - 1].1;
        }
        self.context.iter().copied().chain(path).collect()
    }

    fn ancestors(&self) -> Vec<u32> {
        let stride = ANCESTOR_STRIDE as usize;
        let mut words = vec![0; (1 + self.nodes.len()) * stride];
        for node in 1..=self.nodes.len() {
            let mut path = vec![node as u32];
            while path[0] != 0 {
                path.insert(0, self.nodes[path[0] as usize - 1].1 as u32);
            }
            words[node * stride..][..path.len()].copy_from_slice(&path);
            words[node * stride + stride - 1] = path.len() as u32 - 1;
        }
        words
    }
}

struct Answer {
    logits: Vec<u32>,
    partials: Vec<u32>,
    /// A bit per row.
    faults: u32,
}

/// `committed` and `live` as the control block has them before a step of this form.
fn block(case: &Case) -> (u32, u32) {
    match case.form {
        Form::Prompt => (7, case.context.len() as u32 - 7),
        Form::Plain => (case.context.len() as u32 - 1, 1),
        Form::Tree => (case.context.len() as u32 - 1, 1 + case.nodes.len() as u32),
    }
}

async fn run(lab: &Lab, case: &Case, rows: &[Vec<f32>], control: &[u32]) -> Answer {
    let sampling = Sampling::new(case.options.clone()).expect("options that are served");
    let logits = lab.floats(&rows.concat()).await.expect("a buffer");
    let len = rows.len() * choose::SLICES as usize * 4;
    let partials = lab.words(&vec![SENTINEL; len]).await.expect("a buffer");
    let tokens: Vec<u32> = [0].into_iter().chain(case.nodes.iter().map(|(token, _)| *token)).collect();
    let tokens = lab.words(&tokens).await.expect("a buffer");
    // What lies behind the context is no part of it.
    let mut history = vec![3; MEMORY_TOKENS as usize];
    history.extend(&case.context);
    history.extend([3; 40]);
    let history = lab.words(&history).await.expect("a buffer");
    let ancestors = lab.words(&case.ancestors()).await.expect("a buffer");
    let words = lab.words(&sampling.words(case.generated_from as u32)).await.expect("a buffer");
    let control = lab.words(control).await.expect("a buffer");
    let faults = lab.words(&[0]).await.expect("a buffer");
    let params = Params { len: rows[0].len() as u32, hash: 1, form: case.form as u32 };
    let bindings = Bindings {
        logits: logits.slice(),
        partials: partials.slice(),
        tokens: tokens.slice(),
        history: history.slice(),
        ancestors: ancestors.slice(),
        sampling: words.slice(),
        control: control.slice(),
        faults: faults.slice(),
    };
    let grid = choose::grid(params.len, rows.len() as u32);
    lab.run(Variant, &bindings, params, grid).await.expect("a run");
    Answer {
        logits: lab.read(&logits, rows.len() * rows[0].len()).await.expect("a readback"),
        partials: lab.read(&partials, len).await.expect("a readback"),
        faults: lab.read(&faults, 1).await.expect("a readback")[0],
    }
}

fn check(lab: &Lab, case: &Case, len: usize) {
    let mut noise = Noise::new(len as u64);
    let rows: Vec<Vec<f32>> =
        (0..=case.nodes.len()).map(|_| noise.units(len).iter().map(|x| 20.0 * x).collect()).collect();
    let (committed, live) = block(case);
    let got = block_on(run(lab, case, &rows, &control(committed, live)));
    assert_eq!(got.faults, 0, "{}", case.name);
    for (n, row) in rows.iter().enumerate() {
        let context = case.context_of(n);
        let wanted: Vec<Wanted> = (0u32..)
            .zip(row)
            .map(|(id, raw)| {
                let sum = twin::adjusted(*raw, id, &context, case.generated_from, &case.options);
                let is_same = sum.value == f64::from(*raw);
                if is_same { Wanted::Bits(raw.to_bits()) } else { sum.near(ROUNDINGS, 0.0) }
            })
            .collect();
        let adjusted = &got.logits[n * len..][..len];
        Place { kernel: "adjust", case: case.name, what: "logits", row_len: len }.assert(&wanted, adjusted);
        // The choice among them is that of the choice kernel, and the hash is that of the raw row.
        let floats: Vec<f32> = adjusted.iter().map(|bits| f32::from_bits(*bits)).collect();
        let hashes = choose::slices(row);
        let wanted: Vec<Wanted> = choose::slices(&floats)
            .into_iter()
            .zip(hashes)
            .flat_map(|(best, raw)| [best[0], best[1], raw[2], best[3]].map(Wanted::Bits))
            .collect();
        let partials = &got.partials[n * wanted.len()..][..wanted.len()];
        Place { kernel: "adjust", case: case.name, what: "partials", row_len: 256 }.assert(&wanted, partials);
    }
}

/// Everything on.
fn all_on() -> SamplingOptions {
    SamplingOptions {
        repeat_penalty: 1.3,
        frequency_penalty: 0.7,
        presence_penalty: -0.4,
        logit_bias: vec![(0, 3.5), (3, -10_000.0), (90, 10_000.0), (255, 1.0)],
        ..SamplingOptions::default()
    }
}

fn cases() -> Vec<Case> {
    let context = |len: u32| (0..len).map(|i| (i * i + 5) % 97).collect::<Vec<u32>>();
    let case = |name, form, options| Case {
        name,
        form,
        context: context(150),
        generated_from: 140,
        nodes: Vec::new(),
        options,
    };
    let only = |change: fn(&mut SamplingOptions)| {
        let mut options = SamplingOptions::default();
        change(&mut options);
        options
    };
    let chain = |n: usize| (11 + n as u32 % 3, n);
    vec![
        case("all of it, one token", Form::Plain, all_on()),
        Case { generated_from: 150, ..case("all of it, a prompt", Form::Prompt, all_on()) },
        case("a prompt that resumes a reply", Form::Prompt, all_on()),
        Case {
            nodes: (0..8).map(chain).chain([(11, 0), (96, 9), (2, 4), (2, 11)]).collect(),
            ..case("all of it, a tree nine deep", Form::Tree, all_on())
        },
        case(
            "repetition in a short window",
            Form::Plain,
            only(|o| (o.repeat_penalty, o.repeat_window) = (2.0, 3)),
        ),
        Case {
            context: context(9),
            generated_from: 8,
            ..case("a window longer than the context", Form::Plain, only(|o| o.repeat_penalty = 0.5))
        },
        Case {
            context: vec![12; 3000],
            generated_from: 20,
            ..case("thousands of one token", Form::Plain, only(|o| o.frequency_penalty = 0.01))
        },
        case("presence alone", Form::Plain, only(|o| o.presence_penalty = 1.5)),
        case("a bias alone", Form::Plain, only(|o| o.logit_bias = vec![(7, -2.0)])),
    ]
}

#[test]
fn every_logit_is_adjusted_as_the_twin_does_it() {
    let lab = &lab();
    for case in &cases() {
        check(lab, case, 300);
    }
    // More than a tile in a slice: the largest published vocabulary.
    check(lab, &cases()[0], 262_144);
    const { assert!(262_144 / 64 > super::TILE) };
}

#[test]
fn rows_that_are_not_live_and_ended_runs_are_left_alone() {
    let lab = &lab();
    let case = &cases()[3];
    let rows = vec![vec![1.0; 100]; 13];
    let untouched = |answer: &Answer, from: usize| {
        let place = Place { kernel: "adjust", case: "not live", what: "partials", row_len: 256 };
        place.assert_untouched(&answer.partials[from * 256..]);
        assert!(answer.logits[from * 100..].iter().all(|bits| *bits == 1f32.to_bits()));
    };
    untouched(&block_on(run(lab, case, &rows, &ended(149, 13))), 0);
    let two = block_on(run(lab, case, &rows, &control(149, 2)));
    untouched(&two, 2);
    assert!(two.logits[..200].iter().any(|bits| *bits != 1f32.to_bits()));
}

#[test]
fn a_logit_that_is_no_number_raises_the_bit_of_its_row_with_or_without_a_bias() {
    let lab = &lab();
    let case = &cases()[3];
    for (id, value) in [(0, f32::NAN), (50, f32::INFINITY), (99, f32::NEG_INFINITY)] {
        let mut rows = vec![vec![1.0; 100]; 13];
        rows[5][id] = value;
        assert_eq!(block_on(run(lab, case, &rows, &control(149, 13))).faults, 1 << 5, "{value} at {id}");
        assert_eq!(block_on(run(lab, case, &rows, &control(149, 5))).faults, 0, "the row is not live");
    }
}
