//! How a token is chosen from its logits: checked parameters, and the buffers that carry them to the kernels.
//!
//! ```text
//! Sampling buffer (u32 words; floats by their bits)
//!   0    seed, low half             6    most candidates (top-k)
//!   1    seed, high half            7    repetition penalty
//!   2    1 / temperature            8    tokens that it looks back on
//!   3    log2(e) / temperature      9    frequency penalty
//!   4    log2(min-p)                10   presence penalty
//!   5    top-p, 0.32                11   position of the first generated token
//!   12   biases                     13..16 reserved, zero
//!   16..                   ids of the biases
//!   16 + LOGIT_BIASES_MAX..  their values
//!
//! Selection buffer (u32 words), for each row of logits
//!   0..64   what each pass begins with, eight words a pass: the bits of the cut that are known, the weight
//!           that is left to reach (low, high), the cut of top-k, how many of its equals stay, whether all do
//!   64..    three histograms of SELECTION_BINS weights (low, high), one after the other in use
//! ```

use thiserror::Error;

use crate::limits::CONTEXT_LEN_MAX;

/// Tokens whose logits a request may move: three times what a widely used service allows.
pub const LOGIT_BIASES_MAX: usize = 1024;
/// Largest logit bias either way: far beyond every model's logits, so that it bans or forces a token.
pub const LOGIT_BIAS_MAX: f64 = 10_000.0;
/// Lowest temperature above 0: its reciprocal times a biased logit is far from the end of f32.
pub const TEMPERATURE_MIN: f64 = 1e-9;
/// Highest temperature: beyond it all models' tokens are equally likely.
pub const TEMPERATURE_MAX: f64 = 100.0;
/// Repetition penalties lie between this and its reciprocal.
pub const REPEAT_PENALTY_MAX: f64 = 100.0;
/// Largest frequency and presence penalty either way, as in the interface they come from.
pub const COUNT_PENALTY_MAX: f64 = 2.0;
/// Tokens that the repetition penalty looks back on when nothing else is said.
pub const REPEAT_WINDOW_DEFAULT: u32 = 64;

/// What the sampling buffer begins with, as kernels read it; biases follow.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default, bytemuck::Pod, bytemuck::Zeroable)]
pub struct SamplingBlock {
    /// Low word first.
    pub seed: [u32; 2],
    /// 1 / temperature.
    pub rate: f32,
    /// The same to the base of two.
    pub scale: f32,
    /// log2 of the least probability, relative to the largest.
    pub min_exponent: f32,
    /// The sum of probabilities that stays, 0.32.
    pub top_p: u32,
    /// Candidates that stay.
    pub top_k: u32,
    /// Repetition penalty.
    pub repeat_penalty: f32,
    /// Tokens it looks back on; 0 for none.
    pub repeat_window: u32,
    /// Times a token's occurrences in the reply.
    pub frequency_penalty: f32,
    /// For each token that occurs there.
    pub presence_penalty: f32,
    /// Position of the reply's first token.
    pub generated_from: u32,
    /// How many biases follow.
    pub biases: u32,
}

/// Words of the block.
const SAMPLING_WORDS: usize = size_of::<SamplingBlock>() / 4;
/// Word offset of the ids of the biases.
pub const BIAS_WORD: u32 = 16;
/// Bytes of the sampling buffer.
pub const SAMPLING_BYTES: u64 = 4 * (BIAS_WORD as u64 + 2 * LOGIT_BIASES_MAX as u64);
/// Most passes over a row of logits that find the cuts: three digits of a key, for top-k and for top-p.
pub const SELECTION_PASSES_MAX: u32 = 6;
/// Words of what a pass begins with.
pub const SELECTION_STATE_WORDS: u32 = 8;
/// Bins of a digit: 11 bits of an ordered 32-bit key.
pub const SELECTION_BINS: u32 = 2048;
/// Histograms of a row: the one that is read, the one that is filled, the one that is cleared.
pub const SELECTION_HISTOGRAMS: u32 = 3;
/// Word offset of a row's first histogram.
pub const SELECTION_HISTOGRAM_WORD: u32 = 64;
/// Words of a row of the selection buffer.
pub const SELECTION_ROW_WORDS: u32 = SELECTION_HISTOGRAM_WORD + SELECTION_HISTOGRAMS * 2 * SELECTION_BINS;

const _: () = assert!(SELECTION_STATE_WORDS * SELECTION_PASSES_MAX <= SELECTION_HISTOGRAM_WORD);

/// What a host asks of the choice; [`Sampling::new`] checks it.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingOptions {
    /// 0 takes the most likely token; else [`TEMPERATURE_MIN`] to [`TEMPERATURE_MAX`].
    pub temperature: f64,
    /// Candidates that stay, the most likely ones; 0 for all.
    pub top_k: u32,
    /// The most likely candidates stay whose probabilities reach this sum, 0 to 1; at least one stays.
    pub top_p: f64,
    /// Candidates stay whose probability is at least this part of the largest, 0 to 1.
    pub min_p: f64,
    /// Logits of repeated tokens are divided by this when positive, else multiplied; 1 changes nothing.
    pub repeat_penalty: f64,
    /// Tokens of the context, prompt included, that count as repeated, 0 to [`CONTEXT_LEN_MAX`].
    pub repeat_window: u32,
    /// Taken from a logit for each time that the reply has its token.
    pub frequency_penalty: f64,
    /// Taken from a logit when the reply has its token.
    pub presence_penalty: f64,
    /// Token ids and what is added to their logits; each id once.
    pub logit_bias: Vec<(u32, f64)>,
    /// Where the noise comes from: an equal seed and prompt give an equal reply.
    pub seed: u64,
}

impl Default for SamplingOptions {
    /// The most likely token of the raw logits.
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repeat_penalty: 1.0,
            repeat_window: REPEAT_WINDOW_DEFAULT,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}

/// An option that cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a {option} of {wanted} asked for, {allowed} is possible")]
pub struct SamplingError {
    /// Which option.
    pub option: &'static str,
    /// Its value.
    pub wanted: String,
    /// What is possible, for people.
    pub allowed: String,
}

/// The kernels that choose a token of a row of logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ChoiceWork {
    /// Bias and penalties.
    pub adjusts: bool,
    /// The cut of top-k.
    pub counts: bool,
    /// The cut of top-p.
    pub weighs: bool,
    /// The draw.
    pub draws: bool,
}

/// Checked sampling parameters: every number is finite and in its range.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sampling {
    options: SamplingOptions,
}

// No field is NaN.
impl Eq for Sampling {}

impl Sampling {
    /// Checks the options.
    ///
    /// # Errors
    /// [`SamplingError`] names the first option that is NaN, outside its range or given twice.
    pub fn new(mut options: SamplingOptions) -> Result<Self, SamplingError> {
        let SamplingOptions { temperature, top_p, min_p, repeat_penalty, .. } = options;
        if temperature != 0.0 {
            let is_in = (TEMPERATURE_MIN..=TEMPERATURE_MAX).contains(&temperature);
            let allowed = format!("0, or {TEMPERATURE_MIN:e} to {TEMPERATURE_MAX}");
            check("temperature", temperature, is_in, allowed)?;
        }
        between("top-p", top_p, 0.0, 1.0)?;
        between("min-p", min_p, 0.0, 1.0)?;
        between("repetition penalty", repeat_penalty, 1.0 / REPEAT_PENALTY_MAX, REPEAT_PENALTY_MAX)?;
        if options.repeat_window > CONTEXT_LEN_MAX {
            let (wanted, allowed) = (options.repeat_window.to_string(), format!("0 to {CONTEXT_LEN_MAX}"));
            return Err(SamplingError { option: "repetition window", wanted, allowed });
        }
        let max = COUNT_PENALTY_MAX;
        between("frequency penalty", options.frequency_penalty, -max, max)?;
        between("presence penalty", options.presence_penalty, -max, max)?;
        if options.logit_bias.len() > LOGIT_BIASES_MAX {
            let (wanted, allowed) =
                (format!("{} tokens", options.logit_bias.len()), format!("at most {LOGIT_BIASES_MAX}"));
            return Err(SamplingError { option: "logit bias", wanted, allowed });
        }
        options.logit_bias.sort_by_key(|(id, _)| *id);
        for (_, bias) in &options.logit_bias {
            between("logit bias", *bias, -LOGIT_BIAS_MAX, LOGIT_BIAS_MAX)?;
        }
        if let Some(pair) = options.logit_bias.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let wanted = format!("token {} twice", pair[0].0);
            return Err(SamplingError { option: "logit bias", wanted, allowed: "one for each token".into() });
        }
        Ok(Self { options })
    }

    /// What was asked for; the biases by id.
    pub fn options(&self) -> &SamplingOptions {
        &self.options
    }

    /// True when tokens are drawn; else the largest logit is taken.
    pub fn is_drawn(&self) -> bool {
        self.options.temperature != 0.0
    }

    /// True when logits change before the choice.
    pub fn adjusts(&self) -> bool {
        let SamplingOptions { frequency_penalty, presence_penalty, .. } = self.options;
        let counts = frequency_penalty != 0.0 || presence_penalty != 0.0;
        counts || self.repeats() || !self.options.logit_bias.is_empty()
    }

    fn repeats(&self) -> bool {
        self.options.repeat_penalty != 1.0 && self.options.repeat_window > 0
    }

    /// Candidates that stay of a vocabulary, `None` for all.
    pub fn top_k(&self, vocabulary_len: u32) -> Option<u32> {
        let top_k = self.options.top_k;
        (self.is_drawn() && top_k > 0 && top_k < vocabulary_len).then_some(top_k)
    }

    /// The sum of probabilities that stays, 0.32, `None` for all.
    pub fn top_p(&self) -> Option<u32> {
        let top_p = self.options.top_p;
        // Rust's conversion saturates: the largest value below 1 stays below it.
        (self.is_drawn() && top_p < 1.0).then_some((top_p * 4_294_967_296.0) as u32)
    }

    /// What choosing a token takes: requests of which this is equal take equally long.
    pub fn work(&self, vocabulary_len: u32) -> ChoiceWork {
        ChoiceWork {
            adjusts: self.adjusts(),
            counts: self.top_k(vocabulary_len).is_some(),
            weighs: self.top_p().is_some(),
            draws: self.is_drawn(),
        }
    }

    /// The largest id that has a bias.
    pub fn bias_id_max(&self) -> Option<u32> {
        self.options.logit_bias.last().map(|(id, _)| *id)
    }

    /// The sampling buffer of a request whose first generated token stands at `generated_from`.
    pub fn words(&self, generated_from: u32) -> Vec<u32> {
        let options = &self.options;
        let rate = if self.is_drawn() { 1.0 / options.temperature } else { 1.0 };
        let min_exponent = if options.min_p > 0.0 { options.min_p.log2() } else { f64::from(f32::MIN) };
        let repeat_window = if self.repeats() { options.repeat_window } else { 0 };
        let bits = |value: f64| (value as f32).to_bits();
        let mut words = vec![0; (SAMPLING_BYTES / 4) as usize];
        let block = SamplingBlock {
            seed: [options.seed as u32, (options.seed >> 32) as u32],
            rate: rate as f32,
            scale: (rate * std::f64::consts::LOG2_E) as f32,
            min_exponent: min_exponent as f32,
            top_p: self.top_p().unwrap_or(u32::MAX),
            top_k: options.top_k,
            repeat_penalty: options.repeat_penalty as f32,
            repeat_window,
            frequency_penalty: options.frequency_penalty as f32,
            presence_penalty: options.presence_penalty as f32,
            generated_from,
            biases: options.logit_bias.len() as u32,
        };
        let block: [u32; SAMPLING_WORDS] = bytemuck::cast(block);
        words[..SAMPLING_WORDS].copy_from_slice(&block);
        let (ids, values) = words[BIAS_WORD as usize..].split_at_mut(LOGIT_BIASES_MAX);
        for ((id, bias), (to_id, to_value)) in options.logit_bias.iter().zip(ids.iter_mut().zip(values)) {
            (*to_id, *to_value) = (*id, bits(*bias));
        }
        words
    }
}

fn check(option: &'static str, value: f64, is_in: bool, allowed: String) -> Result<(), SamplingError> {
    if is_in { Ok(()) } else { Err(SamplingError { option, wanted: value.to_string(), allowed }) }
}

/// Also refuses NaN, which is in no range.
fn between(option: &'static str, value: f64, min: f64, max: f64) -> Result<(), SamplingError> {
    check(option, value, (min..=max).contains(&value), format!("{min} to {max}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut SamplingOptions)) -> Option<SamplingError> {
        let mut options = SamplingOptions::default();
        change(&mut options);
        Sampling::new(options).err()
    }

    /// Report F06: edge values are served as documented or refused by name, and never divide by zero.
    #[test]
    fn f06_edge_values_are_served_or_refused_by_name() {
        for temperature in [0.0, -0.0, 1e-9, 0.7, 100.0] {
            assert_eq!(refused(|o| o.temperature = temperature), None, "{temperature}");
        }
        let nan = f64::NAN;
        for temperature in [-1.0, 1e-10, 5e-324, 101.0, 1e9, f64::INFINITY, -f64::INFINITY, nan] {
            let error = refused(|o| o.temperature = temperature).expect("is refused");
            assert_eq!(error.option, "temperature", "{temperature}");
        }
        for (top_p, min_p) in [(0.0, 0.0), (1.0, 1.0), (0.5, 1e-300)] {
            assert_eq!(refused(|o| (o.top_p, o.min_p) = (top_p, min_p)), None);
        }
        for outside in [-0.1, 1.5, nan] {
            assert_eq!(refused(|o| o.top_p = outside).expect("is refused").option, "top-p");
            assert_eq!(refused(|o| o.min_p = outside).expect("is refused").option, "min-p");
        }
        for penalty in [0.0, -1.0, 1e9, nan] {
            let error = refused(|o| o.repeat_penalty = penalty).expect("is refused");
            assert_eq!(error.option, "repetition penalty", "{penalty}");
        }
        for penalty in [-2.5, 3.0, f64::INFINITY, nan] {
            assert!(refused(|o| o.frequency_penalty = penalty).is_some(), "{penalty}");
            assert!(refused(|o| o.presence_penalty = penalty).is_some(), "{penalty}");
        }
        for bias in [vec![(1, nan)], vec![(1, 1e5)], vec![(3, 0.5), (1, 1.0), (3, 0.5)], vec![(0, 0.0); 1025]]
        {
            assert_eq!(refused(|o| o.logit_bias = bias).expect("is refused").option, "logit bias");
        }
        assert!(refused(|o| o.repeat_window = CONTEXT_LEN_MAX + 1).is_some());
        let text = refused(|o| o.temperature = -1.0).expect("is refused").to_string();
        assert_eq!(text, "a temperature of -1 asked for, 0, or 1e-9 to 100 is possible");
    }

    #[test]
    fn f06_neutral_values_are_off() {
        let sampling = |change: fn(&mut SamplingOptions)| {
            let mut options = SamplingOptions { temperature: 1.0, ..SamplingOptions::default() };
            change(&mut options);
            Sampling::new(options).expect("is served")
        };
        assert_eq!(Sampling::default(), Sampling::new(SamplingOptions::default()).expect("is served"));
        assert!(!Sampling::default().is_drawn() && !Sampling::default().adjusts());
        let neutral = sampling(|_| ());
        assert!(neutral.is_drawn() && !neutral.adjusts());
        assert_eq!((neutral.top_k(100), neutral.top_p()), (None, None));
        assert_eq!(sampling(|o| o.top_k = 100).top_k(100), None, "as many as there are");
        assert_eq!(sampling(|o| o.top_k = 99).top_k(100), Some(99));
        assert_eq!(sampling(|o| o.top_p = 0.0).top_p(), Some(0));
        assert_eq!(sampling(|o| o.top_p = 0.5).top_p(), Some(1 << 31));
        assert_eq!(sampling(|o| o.top_p = 1.0 - f64::EPSILON / 2.0).top_p(), Some(u32::MAX));
        assert!(!sampling(|o| (o.repeat_penalty, o.repeat_window) = (2.0, 0)).adjusts());
        assert!(sampling(|o| o.repeat_penalty = 2.0).adjusts());
        assert!(sampling(|o| o.presence_penalty = -0.5).adjusts());
        assert!(sampling(|o| o.logit_bias = vec![(9, 0.0), (4, 1.0)]).adjusts());
    }

    #[test]
    fn words_are_where_the_diagram_has_them() {
        let options = SamplingOptions {
            temperature: 0.5,
            min_p: 0.25,
            top_p: 0.75,
            top_k: 40,
            repeat_penalty: 1.5,
            logit_bias: vec![(9, 2.0), (4, -1.0)],
            seed: u64::MAX - 1,
            ..SamplingOptions::default()
        };
        let words = Sampling::new(options).expect("is served").words(77);
        assert_eq!(words[..2], [u32::MAX - 1, u32::MAX]);
        assert_eq!(f32::from_bits(words[2]), 2.0);
        assert_eq!(f32::from_bits(words[4]), -2.0);
        assert_eq!(words[5..7], [3 << 30, 40]);
        assert_eq!(words[8], REPEAT_WINDOW_DEFAULT);
        assert_eq!(words[11..13], [77, 2]);
        assert_eq!(words[16..18], [4, 9]);
        assert_eq!(f32::from_bits(words[16 + LOGIT_BIASES_MAX]), -1.0);
    }
}
