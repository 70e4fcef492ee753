//! What can be said on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use fanlight_messages::limits::CONTEXT_LEN_DEFAULT;
use fanlight_messages::plan::{BATCH_TOKENS_MAX, KvFormat};

/// Language models on this machine's GPU, with the engine that runs them in a web page.
#[derive(Debug, Parser)]
#[command(name = "fanlight", version)]
pub struct Options {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer a prompt.
    Run(RunOptions),
    /// Show what a model file holds and what it would take on the GPU, to the byte.
    Inspect(InspectOptions),
    /// Compare, on this adapter, every pair of pipelines that may compute the same token: all bits must
    /// agree.
    Verify(VerifyOptions),
    /// Measure how fast a model loads, reads prompts and decodes.
    Bench(BenchOptions),
}

impl Command {
    /// Whether the output is JSON, one object per line.
    pub fn is_json(&self) -> bool {
        match self {
            Self::Run(options) => options.json,
            Self::Inspect(_) => false,
            Self::Verify(options) => options.json,
            Self::Bench(options) => options.json,
        }
    }
}

/// Options of `run`.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// The model file (GGUF); of a split model, its first part.
    pub model: PathBuf,
    /// What to say to the model.
    #[arg(short, long, value_name = "TEXT")]
    pub prompt: String,
    /// Continue the text as it is, without the chat template; control tokens in it are recognised.
    #[arg(long)]
    pub raw: bool,
    /// Most tokens of the reply.
    #[arg(short = 'n', long = "max-tokens", value_name = "N", default_value_t = 256)]
    pub token_limit: u32,
    /// Positions of the context [default: 4096, or the file's where that is less].
    #[arg(long, value_name = "N")]
    pub context: Option<u32>,
    /// Most decode steps per submission: 1, 2 or 4.
    #[arg(long, value_name = "W", default_value_t = 4)]
    pub window: u32,
    /// Prompt tokens per submission, 1 to 512.
    #[arg(long, value_name = "N", default_value_t = BATCH_TOKENS_MAX)]
    pub chunk: u32,
    /// Format of the key/value cache.
    #[arg(long, value_enum, default_value_t = Kv::F16)]
    pub kv: Kv,
    /// Whether a model that can think before it answers does so.
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    pub think: Switch,
    /// Print one JSON object per line; the last one sums up.
    #[arg(long)]
    pub json: bool,
}

/// Options of `inspect`.
#[derive(Debug, Args)]
pub struct InspectOptions {
    /// The model file (GGUF); of a split model, its first part.
    pub model: PathBuf,
    /// Positions of the context [default: 4096, or the file's where that is less].
    #[arg(long, value_name = "N")]
    pub context: Option<u32>,
    /// Prompt tokens per submission, 1 to 512.
    #[arg(long, value_name = "N", default_value_t = BATCH_TOKENS_MAX)]
    pub chunk: u32,
    /// Format of the key/value cache.
    #[arg(long, value_enum, default_value_t = Kv::F16)]
    pub kv: Kv,
}

/// Options of `verify`.
#[derive(Debug, Args)]
pub struct VerifyOptions {
    /// Compare only what this model uses [default: every weight format, and the heads of published models].
    pub model: Option<PathBuf>,
    /// Format of the key/value cache, where a model is named.
    #[arg(long, value_enum, default_value_t = Kv::F16, requires = "model")]
    pub kv: Kv,
    /// Print one JSON object per line; the last one sums up.
    #[arg(long)]
    pub json: bool,
}

/// Options of `bench`.
#[derive(Debug, Args)]
pub struct BenchOptions {
    /// The model file (GGUF); of a split model, its first part.
    pub model: PathBuf,
    /// Positions of the context [default: 4096, or the file's where that is less].
    #[arg(long, value_name = "N")]
    pub context: Option<u32>,
    /// Format of the key/value cache.
    #[arg(long, value_enum, default_value_t = Kv::F16)]
    pub kv: Kv,
    /// Print one JSON object per line.
    #[arg(long)]
    pub json: bool,
}

/// Cache formats by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kv {
    /// Half precision.
    F16,
    /// Single precision.
    F32,
}

impl From<Kv> for KvFormat {
    fn from(kv: Kv) -> Self {
        match kv {
            Kv::F16 => Self::F16,
            Kv::F32 => Self::F32,
        }
    }
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Yes.
    On,
    /// No.
    Off,
}

// The help text above names the default.
const _: () = assert!(CONTEXT_LEN_DEFAULT == 4096);
