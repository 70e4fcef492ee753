//! How tokens are chosen, as it is said on the command line.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use clap::Args;

use fanlight_messages::sampling::{REPEAT_WINDOW_DEFAULT, Sampling, SamplingError, SamplingOptions};

/// Options of the choice.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// 0 always takes the most likely token; higher values draw more evenly.
    #[arg(long, value_name = "T", default_value_t = 0.8, allow_negative_numbers = true)]
    pub temperature: f64,
    /// Draw among the K most likely tokens; 0 for all.
    #[arg(long, value_name = "K", default_value_t = 40)]
    pub top_k: u32,
    /// Draw among the most likely tokens whose probabilities reach this sum.
    #[arg(long, value_name = "P", default_value_t = 0.95, allow_negative_numbers = true)]
    pub top_p: f64,
    /// Leave out tokens less likely than P times the most likely one.
    #[arg(long, value_name = "P", default_value_t = 0.05, allow_negative_numbers = true)]
    pub min_p: f64,
    /// Divide logits of repeated tokens by this where positive, else multiply.
    #[arg(long, value_name = "R", default_value_t = 1.0, allow_negative_numbers = true)]
    pub repeat_penalty: f64,
    /// Tokens back, prompt included, that count as repeated.
    #[arg(long, value_name = "N", default_value_t = REPEAT_WINDOW_DEFAULT)]
    pub repeat_window: u32,
    /// Lower a token's logit by this for each time that the reply has it.
    #[arg(long, value_name = "F", default_value_t = 0.0, allow_negative_numbers = true)]
    pub frequency_penalty: f64,
    /// Lower a token's logit by this once the reply has it.
    #[arg(long, value_name = "F", default_value_t = 0.0, allow_negative_numbers = true)]
    pub presence_penalty: f64,
    /// Add to the logit of a token id; may be given several times.
    #[arg(long, value_name = "ID=BIAS", value_parser = parse_bias)]
    pub logit_bias: Vec<(u32, f64)>,
    /// Seed of the draws, 0 to 2^64 - 1: the same seed and prompt give the same reply [default: random; it
    /// is printed].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

impl SamplingArgs {
    /// Checked; without a seed, with one that the operating system gives.
    pub fn sampling(&self) -> Result<Sampling, SamplingError> {
        // The only source of randomness in the standard library: a hasher's random key.
        let seed = self.seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        Sampling::new(SamplingOptions {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_penalty: self.repeat_penalty,
            repeat_window: self.repeat_window,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            logit_bias: self.logit_bias.clone(),
            seed,
        })
    }
}

fn parse_bias(text: &str) -> Result<(u32, f64), String> {
    let parsed = text.split_once('=').and_then(|(id, bias)| Some((id.parse().ok()?, bias.parse().ok()?)));
    parsed.ok_or_else(|| "use ID=BIAS: a token id and a number".into())
}
