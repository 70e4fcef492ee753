//! A plain f64 sampler: the distribution that sampling options describe, and which token a position draws
//! from it. It shares no code with the product and follows docs/semantics.md alone.

use fanlight_messages::sampling::SamplingOptions;

/// What may be chosen at a position.
#[derive(Debug, Clone, PartialEq)]
pub struct Draw {
    /// Logits after bias and penalties, by id.
    pub logits: Vec<f64>,
    /// Candidates that certainly stay.
    pub kept: Vec<bool>,
    /// Candidates so near to a cut that f32 may decide otherwise.
    pub doubtful: Vec<bool>,
    /// logit / temperature + noise, by id; the logit alone without temperature.
    pub scores: Vec<f64>,
}

/// Relative error that f32 arithmetic is allowed at a cut and at the last comparison.
const DOUBT: f64 = 1e-5;

impl Draw {
    /// Of the raw `logits` behind `context`, whose tokens from `generated_from` on are the reply's.
    pub fn new(logits: &[f32], context: &[u32], generated_from: usize, options: &SamplingOptions) -> Self {
        let logits = adjusted(logits, context, generated_from, options);
        let (kept, doubtful) = cut(&logits, options);
        let position = context.len() as u32;
        let score = |(id, logit): (usize, &f64)| match options.temperature {
            0.0 => *logit,
            temperature => logit / temperature + gumbel(options.seed, position, id as u32),
        };
        let scores = logits.iter().enumerate().map(score).collect();
        Self { logits, kept, doubtful, scores }
    }

    /// The exact probability of each candidate that stays.
    pub fn probabilities(&self, temperature: f64) -> Vec<f64> {
        let largest = self.logits.iter().copied().fold(f64::MIN, f64::max);
        let weight = |(logit, kept): (&f64, &bool)| {
            if *kept { ((logit - largest) / temperature).exp() } else { 0.0 }
        };
        let weights: Vec<f64> = self.logits.iter().zip(&self.kept).map(weight).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / total).collect()
    }

    /// Whether a chosen token is the one that this position draws.
    ///
    /// # Errors
    /// What speaks against it.
    pub fn check(&self, id: u32) -> Result<(), String> {
        let at = id as usize;
        let score = *self.scores.get(at).ok_or_else(|| format!("token {id} does not exist"))?;
        if !self.kept[at] && !self.doubtful[at] {
            return Err(format!("token {id} was cut"));
        }
        let best = (0..self.scores.len()).filter(|id| self.kept[*id] && !self.doubtful[*id]);
        let best = best.map(|id| self.scores[id]).fold(f64::MIN, f64::max);
        let allowed = DOUBT * (1.0 + best.abs());
        if score >= best - allowed { Ok(()) } else { Err(format!("token {id} has {score}, {best} is there")) }
    }
}

fn adjusted(raw: &[f32], context: &[u32], generated_from: usize, options: &SamplingOptions) -> Vec<f64> {
    let mut logits: Vec<f64> = raw.iter().map(|logit| f64::from(*logit)).collect();
    for (id, bias) in &options.logit_bias {
        logits[*id as usize] += bias;
    }
    let window = context.len().saturating_sub(options.repeat_window as usize);
    for id in context[window..].iter().collect::<std::collections::BTreeSet<_>>() {
        let logit = &mut logits[*id as usize];
        *logit = if *logit > 0.0 { *logit / options.repeat_penalty } else { *logit * options.repeat_penalty };
    }
    let mut seen = vec![false; logits.len()];
    for id in context.iter().skip(generated_from) {
        let at = *id as usize;
        logits[at] -= options.frequency_penalty;
        if !std::mem::replace(&mut seen[at], true) {
            logits[at] -= options.presence_penalty;
        }
    }
    logits
}

/// Which candidates stay, and which are doubtful.
fn cut(logits: &[f64], options: &SamplingOptions) -> (Vec<bool>, Vec<bool>) {
    let mut kept = vec![true; logits.len()];
    let mut doubtful = vec![false; logits.len()];
    if options.temperature == 0.0 {
        return (kept, doubtful);
    }
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
    let top_k = if options.top_k == 0 { logits.len() } else { options.top_k as usize };
    for (rank, id) in order.iter().enumerate().skip(top_k) {
        kept[*id] = false;
        // Adjusted logits that differ by less than f32 tells apart may change places.
        let last = logits[order[rank.min(top_k) - 1]];
        doubtful[*id] = (last - logits[*id]).abs() < DOUBT * last.abs() && last != logits[*id];
    }
    let stay = &order[..top_k.min(order.len())];
    let largest = logits[order[0]];
    let weight = |id: usize| ((logits[id] - largest) / options.temperature).exp();
    let total: f64 = stay.iter().map(|id| weight(*id)).sum();
    let mut sum = 0.0;
    for id in stay {
        let (reached, part) = (sum / total, weight(*id));
        sum += part;
        let is_first = *id == order[0];
        kept[*id] = is_first || (options.top_p == 1.0 || reached < options.top_p) && part >= options.min_p;
        let near_p = options.top_p < 1.0 && (reached - options.top_p).abs() < DOUBT;
        let near_min = (part - options.min_p).abs() < DOUBT * options.min_p;
        doubtful[*id] = !is_first && (near_p || near_min);
    }
    (kept, doubtful)
}

/// Gumbel noise of a token at a position: -ln(-ln u), u from a word of Philox-4x32-10.
pub fn gumbel(seed: u64, position: u32, id: u32) -> f64 {
    let mut state = [id >> 2, position, 0, 0];
    let mut keys = [(seed & 0xffff_ffff) as u32, (seed >> 32) as u32];
    for round in 0..10 {
        if round > 0 {
            keys[0] = keys[0].wrapping_add(0x9E37_79B9);
            keys[1] = keys[1].wrapping_add(0xBB67_AE85);
        }
        let [a, b, c, d] = state;
        let left = u64::from(a) * 0xD251_1F53;
        let right = u64::from(c) * 0xCD9E_8D57;
        state = [
            (right >> 32) as u32 ^ b ^ keys[0],
            right as u32,
            (left >> 32) as u32 ^ d ^ keys[1],
            left as u32,
        ];
    }
    let u = (f64::from(!state[(id & 3) as usize]) + 0.5) / 2f64.powi(32);
    -(-u.ln()).ln()
}
