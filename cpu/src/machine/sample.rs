//! Bias, penalties, cuts and the draw of a row, as docs/semantics.md, "Sampling", has them. Cuts are found on
//! integers: ordered values, and masses of 30 bits.

use std::collections::BTreeMap;

use fanlight_compute::math::exp2;
use fanlight_compute::tiles::LANES;
use fanlight_compute::{Kernel, Level, Simd};
use fanlight_messages::sampling::Sampling;

/// What a row follows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    /// Tokens of the context.
    pub(super) tokens: &'a [u32],
    /// Tokens of a draft behind them.
    pub(super) path: &'a [u32],
    /// Position of the reply's first token.
    pub(super) generated_from: u32,
}

impl Context<'_> {
    fn len(&self) -> usize {
        self.tokens.len() + self.path.len()
    }

    /// Tokens from a position on.
    fn from(&self, position: usize) -> impl Iterator<Item = u32> {
        self.tokens.iter().chain(self.path).skip(position).copied()
    }
}

/// A token that may be drawn.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    value: f32,
    id: u32,
}

impl Candidate {
    /// Larger values first, of equal ones the lowest id.
    fn rank(&self, other: &Self) -> std::cmp::Ordering {
        let order = other.value.partial_cmp(&self.value).unwrap_or(std::cmp::Ordering::Equal);
        order.then(self.id.cmp(&other.id))
    }
}

/// Chooses a token; the logits are finite.
pub(super) fn sample(level: Level, logits: &mut [f32], context: Context<'_>, sampling: &Sampling) -> u32 {
    adjust(logits, context, sampling);
    if !sampling.is_drawn() {
        return largest(logits).id;
    }
    let rate = 1.0 / sampling.options().temperature;
    let draw = Draw {
        rate: rate as f32,
        scale: (rate * std::f64::consts::LOG2_E) as f32,
        seed: sampling.options().seed,
        position: context.len() as u32,
    };
    let top = largest(logits);
    let vocabulary_len = logits.len() as u32;
    let mut candidates = match sampling.top_k(vocabulary_len) {
        Some(k) => top_k(logits, k as usize),
        None => (0..).zip(logits.iter()).map(|(id, value)| Candidate { value: *value, id }).collect(),
    };
    if let Some(top_p) = sampling.top_p() {
        cut_by_mass(level, &mut candidates, top, draw.scale, top_p);
    }
    if sampling.options().min_p > 0.0 {
        let exponent = sampling.options().min_p.log2() as f32;
        candidates.retain(|c| c.value == top.value || (c.value - top.value) * draw.scale >= exponent);
    }
    draw.choose(&candidates)
}

fn largest(logits: &[f32]) -> Candidate {
    let first = Candidate { value: f32::NEG_INFINITY, id: 0 };
    (0..).zip(logits).fold(
        first,
        |best, (id, value)| {
            if *value > best.value { Candidate { value: *value, id } } else { best }
        },
    )
}

fn adjust(logits: &mut [f32], context: Context<'_>, sampling: &Sampling) {
    let options = sampling.options();
    for (id, bias) in &options.logit_bias {
        if let Some(logit) = logits.get_mut(*id as usize) {
            *logit += *bias as f32;
        }
    }
    if options.repeat_penalty != 1.0 {
        let penalty = options.repeat_penalty as f32;
        let first = context.len().saturating_sub(options.repeat_window as usize);
        let mut repeated: Vec<u32> = context.from(first).collect();
        repeated.sort_unstable();
        repeated.dedup();
        for id in repeated {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            }
        }
    }
    if options.frequency_penalty != 0.0 || options.presence_penalty != 0.0 {
        let (frequency, presence) = (options.frequency_penalty as f32, options.presence_penalty as f32);
        let mut counts = BTreeMap::<u32, u32>::new();
        context.from(context.generated_from as usize).for_each(|id| *counts.entry(id).or_default() += 1);
        for (id, count) in counts {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit = *logit - frequency * count as f32 - presence;
            }
        }
    }
}

/// The k largest, of equal ones those of the lowest ids, in any order.
fn top_k(logits: &[f32], k: usize) -> Vec<Candidate> {
    // A few times k are collected before the smaller ones are dropped: most of a row never comes in.
    let room = (4 * k).max(256);
    let mut kept: Vec<Candidate> = Vec::with_capacity(room);
    let mut least = f32::NEG_INFINITY;
    for (id, value) in (0..).zip(logits) {
        // One that equals the least of k has a higher id than they.
        if *value > least || kept.len() < k {
            kept.push(Candidate { value: *value, id });
            if kept.len() == room {
                kept.select_nth_unstable_by(k - 1, Candidate::rank);
                kept.truncate(k);
                least = kept[k - 1].value;
            }
        }
    }
    if kept.len() > k {
        kept.select_nth_unstable_by(k - 1, Candidate::rank);
        kept.truncate(k);
    }
    kept
}

/// Masses of candidates: `2³⁰ · exp2((value - largest) · scale)`, rounded down.
struct Masses<'a> {
    candidates: &'a [Candidate],
    largest: f32,
    scale: f32,
}

impl Kernel for Masses<'_> {
    type Output = Vec<u32>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Vec<u32> {
        let mut masses = Vec::with_capacity(self.candidates.len());
        for part in self.candidates.chunks(LANES) {
            let mut lanes = [0.0; LANES];
            for (lane, candidate) in lanes.iter_mut().zip(part) {
                *lane = 30.0 + (candidate.value - self.largest) * self.scale;
            }
            for lanes in lanes.chunks_exact_mut(S::LANES) {
                let mass = exp2(s, s.load(lanes));
                s.store(lanes, mass);
            }
            masses.extend(lanes.iter().zip(part).map(|(mass, _)| *mass as u32));
        }
        masses
    }
}

/// Keeps the largest candidates whose masses first reach `top_p` (0.32) of all, at least one.
fn cut_by_mass(level: Level, candidates: &mut Vec<Candidate>, top: Candidate, scale: f32, top_p: u32) {
    let masses = level.run(Masses { candidates, largest: top.value, scale });
    let total: u64 = masses.iter().map(|mass| u64::from(*mass)).sum();
    let wanted = ((u128::from(total) * u128::from(top_p)).div_ceil(1 << 32) as u64).max(1);
    let mut weighed: Vec<(Candidate, u32)> = candidates.iter().copied().zip(masses).collect();
    // The rest holds the cut; what comes before it is in `reached`.
    let (mut first, mut last, mut reached) = (0, weighed.len(), 0u64);
    while last - first > 1 {
        let middle = (first + last) / 2;
        weighed[first..last].select_nth_unstable_by(middle - first, |a, b| a.0.rank(&b.0));
        let upper: u64 = weighed[first..middle].iter().map(|(_, mass)| u64::from(*mass)).sum();
        if reached + upper >= wanted {
            last = middle;
        } else {
            reached += upper;
            first = middle;
        }
    }
    candidates.clear();
    candidates.extend(weighed[..last].iter().map(|(candidate, _)| *candidate));
}

/// A draw at a position.
struct Draw {
    rate: f32,
    scale: f32,
    seed: u64,
    position: u32,
}

/// No noise is larger: -ln(-ln(1 - 2⁻³³)).
const NOISE_MAX: f32 = 23.0;

impl Draw {
    /// The candidate of the largest `value · rate + noise`.
    fn choose(&self, candidates: &[Candidate]) -> u32 {
        let mut best = Candidate { value: f32::NEG_INFINITY, id: u32::MAX };
        for Candidate { value, id } in candidates {
            let scaled = value * self.rate;
            // Most of a long row can be left out without its noise.
            if scaled + NOISE_MAX < best.value {
                continue;
            }
            let score = scaled + gumbel(self.word(*id));
            if score > best.value || (score == best.value && *id < best.id) {
                best = Candidate { value: score, id: *id };
            }
        }
        best.id
    }

    /// The random word of a token: Philox-4x32-10 (Salmon, Moraes, Dror and Shaw 2011).
    fn word(&self, id: u32) -> u32 {
        let mut c = [id / 4, self.position, 0, 0];
        let mut key = [self.seed as u32, (self.seed >> 32) as u32];
        for _ in 0..10 {
            let first = 0xD251_1F53_u64 * u64::from(c[0]);
            let second = 0xCD9E_8D57_u64 * u64::from(c[2]);
            let high = |product: u64| (product >> 32) as u32;
            c = [high(second) ^ c[1] ^ key[0], second as u32, high(first) ^ c[3] ^ key[1], first as u32];
            key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
        }
        c[id as usize % 4]
    }
}

/// (ln(1 + r) - r) / r² by a polynomial fitted between √½ and √2, relative error below 2⁻²⁶.
fn log_tail(r: f32) -> f32 {
    let mut q = -0.078_677_94f32;
    for c in [
        0.128_234_36,
        -0.131_019_88,
        0.141_888,
        -0.166_275_49,
        0.200_019_76,
        -0.250_007_75,
        0.333_333_22,
        -0.499_999_97,
    ] {
        q = q * r + c;
    }
    q
}

/// ln of a positive normal number: 2ᵉ · (1 + r) with 1 + r between √½ and √2.
fn log_of(x: f32) -> f32 {
    let bits = x.to_bits().wrapping_sub(0x3f35_04f3);
    let e = (bits as i32) >> 23;
    let r = f32::from_bits((bits & 0x007f_ffff) + 0x3f35_04f3) - 1.0;
    e as f32 * std::f32::consts::LN_2 + (r * r * log_tail(r) + r)
}

/// Gumbel noise `-ln(-ln(1 - v))`, v = (word + ½) / 2³². Near 0, the inner logarithm comes from v itself.
fn gumbel(word: u32) -> f32 {
    const UNIT: f32 = 2.328_306_4e-10;
    let v = (word as f32 + 0.5) * UNIT;
    if word < 0x4000_0000 {
        return -log_of(v * v * -log_tail(-v) + v);
    }
    -log_of(-log_of((!word as f32 + 0.5) * UNIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_near() {
        for k in 1..4000u32 {
            let word = k.wrapping_mul(2_654_435_761);
            let v = (f64::from(word) + 0.5) / 2f64.powi(32);
            let wanted = -(-(-v).ln_1p()).ln();
            assert!((f64::from(gumbel(word)) - wanted).abs() < 2e-6 * (1.0 + wanted.abs()), "{word}");
        }
        assert!((gumbel(0) - 22.873_857).abs() < 1e-4 && gumbel(0) < NOISE_MAX);
    }

    #[test]
    fn top_k_keeps_the_largest_and_of_equal_ones_the_lowest_ids() {
        let logits: Vec<f32> = (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as f32).collect();
        for k in [1, 40, 64, 300, 4999] {
            let mut wanted: Vec<Candidate> =
                (0..).zip(&logits).map(|(id, value)| Candidate { value: *value, id }).collect();
            wanted.sort_by(Candidate::rank);
            let mut wanted: Vec<u32> = wanted[..k].iter().map(|c| c.id).collect();
            let mut got: Vec<u32> = top_k(&logits, k).iter().map(|c| c.id).collect();
            wanted.sort_unstable();
            got.sort_unstable();
            assert_eq!(got, wanted, "{k}");
        }
    }
}
