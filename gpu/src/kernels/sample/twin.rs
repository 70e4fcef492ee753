//! The plain draw: sorted candidates, f64 probabilities, Gumbel noise from Philox.

use fanlight_messages::sampling::SamplingOptions;

/// Whether a candidate stays; near a cut of probabilities f32 and f64 may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stays {
    Yes,
    Perhaps,
    No,
}

/// A candidate: does it stay, and logit / temperature + noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) stays: Stays,
    pub(super) score: f64,
}

/// How near to a cut f32 arithmetic may err, as a part of the whole.
const NEAR: f64 = 1e-5;

/// Philox-4x32-10 of a counter and a key.
pub(super) fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let first = 0xD251_1F53_u64 * u64::from(counter[0]);
        let second = 0xCD9E_8D57_u64 * u64::from(counter[2]);
        let high = |product: u64| (product >> 32) as u32;
        counter = [
            high(second) ^ counter[1] ^ key[0],
            second as u32,
            high(first) ^ counter[3] ^ key[1],
            first as u32,
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

fn noise(seed: u64, position: u32, id: u32) -> f64 {
    let words = philox([id / 4, position, 0, 0], [seed as u32, (seed >> 32) as u32]);
    let v = (f64::from(words[id as usize % 4]) + 0.5) / 4_294_967_296.0;
    -(-(-v).ln_1p()).ln()
}

fn near(value: f64, cut: f64, scale: f64) -> Stays {
    match value - cut {
        below if below < -NEAR * scale => Stays::No,
        above if above > NEAR * scale => Stays::Yes,
        _ => Stays::Perhaps,
    }
}

/// Every token of a row as a candidate for `position`.
pub(super) fn candidates(row: &[f32], position: u32, options: &SamplingOptions) -> Vec<Candidate> {
    let temperature = options.temperature;
    let mut order: Vec<usize> = (0..row.len()).collect();
    // The sort is stable: equal values stay in order of their ids.
    order.sort_by(|a, b| row[*b].partial_cmp(&row[*a]).expect("no NaN"));
    let kept = if options.top_k == 0 { row.len() } else { row.len().min(options.top_k as usize) };
    let largest = f64::from(row[order[0]]);
    let probability = |id: &usize| ((f64::from(row[*id]) - largest) / temperature).exp();
    let total: f64 = order[..kept].iter().map(probability).sum();
    let mut all: Vec<Candidate> = (0u32..)
        .zip(row)
        .map(|(id, value)| {
            let score = f64::from(*value) / temperature + noise(options.seed, position, id);
            Candidate { stays: Stays::No, score }
        })
        .collect();
    let mut before = 0.0;
    for (rank, id) in order[..kept].iter().enumerate() {
        // Stays while those before it have not reached p.
        let by_sum = near(options.top_p * total, before, total);
        let by_largest = near(probability(id).ln(), options.min_p.ln(), 1.0);
        let all_stay = (options.top_p == 1.0, options.min_p == 0.0);
        let by_sum = if all_stay.0 || rank == 0 { Stays::Yes } else { by_sum };
        let by_largest = if all_stay.1 || rank == 0 { Stays::Yes } else { by_largest };
        all[*id].stays = match (by_sum, by_largest) {
            (Stays::Yes, Stays::Yes) => Stays::Yes,
            (Stays::No, _) | (_, Stays::No) => Stays::No,
            _ => Stays::Perhaps,
        };
        before += probability(id);
    }
    all
}
