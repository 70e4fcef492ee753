//! Options of `fanlight chat`.

use std::path::PathBuf;

use clap::Args;

use crate::options::{BudgetOptions, Kv};
use crate::sampling::SamplingArgs;

/// With which model, and how it answers.
#[derive(Debug, Args)]
pub struct ChatOptions {
    /// The model file (GGUF), or a name that list shows; of a split model, its first part.
    pub model: PathBuf,
    /// Instructions for the model.
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// A text file that is put before the first message.
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Let a model think before it answers, where it can.
    #[arg(long)]
    pub think: bool,
    /// Most tokens of a reply [default: as many as fit].
    #[arg(short = 'n', long = "max-tokens", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub token_limit: Option<u32>,
    /// Keep no history of what is entered.
    #[arg(long)]
    pub no_history: bool,
    /// Positions of the context [default: 4096, or the file's where that is less].
    #[arg(long, value_name = "N")]
    pub context: Option<u32>,
    /// Format of the key/value cache.
    #[arg(long, value_enum, default_value_t = Kv::F16)]
    pub kv: Kv,
    /// What the model may take on the GPU.
    #[command(flatten)]
    pub budget: BudgetOptions,
    /// How tokens are chosen.
    #[command(flatten)]
    pub sampling: SamplingArgs,
}
