//! What can be said on the command line.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use fanlight_messages::draft::{WIDTHS, Width};
use fanlight_messages::limits::CONTEXT_LEN_DEFAULT;
use fanlight_messages::plan::{BATCH_TOKENS_MAX, Budget, KvFormat, Preset};

use crate::sampling::SamplingArgs;

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
    /// Show what each drafter would have been worth on recorded replies.
    Replay(ReplayOptions),
}

impl Command {
    /// Whether the output is JSON, one object per line.
    pub fn is_json(&self) -> bool {
        match self {
            Self::Run(options) => options.json,
            Self::Inspect(_) => false,
            Self::Verify(options) => options.json,
            Self::Bench(options) => options.json,
            Self::Replay(options) => options.json,
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
    /// Prompt tokens per submission, 1 to 512 [default: 512; under a budget 32, or the preset's].
    #[arg(long, value_name = "N")]
    pub chunk: Option<u32>,
    /// Format of the key/value cache.
    #[arg(long, value_enum, default_value_t = Kv::F16)]
    pub kv: Kv,
    /// What the model may take on the GPU.
    #[command(flatten)]
    pub budget: BudgetOptions,
    /// Read the file past the operating system's cache: for a model larger than the memory (Linux).
    #[arg(long)]
    pub direct: bool,
    /// Host memory that keeps streamed pages between passes, MiB.
    #[arg(long, value_name = "MIB", default_value_t = 0)]
    pub cache_mib: u64,
    /// Nodes of the draft tree that a step verifies: off, 1, 2, 4, 8, 16 or 32. Never changes the answer.
    #[arg(long, value_name = "N", default_value = "off", value_parser = parse_width)]
    pub width: Width,
    /// How tokens are chosen.
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// End the reply before this text; may be given several times.
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// Whether a model that can think before it answers does so.
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    pub think: Switch,
    /// Print what telemetry keeps, one JSON object per line on the standard error output, while the reply
    /// goes on and when it ends.
    #[arg(long)]
    pub observe: bool,
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
    /// Prompt tokens per submission, 1 to 512 [default: 512; under a budget 32, or the preset's].
    #[arg(long, value_name = "N")]
    pub chunk: Option<u32>,
    /// Format of the key/value cache.
    #[arg(long, value_enum, default_value_t = Kv::F16)]
    pub kv: Kv,
    /// What the model may take on the GPU.
    #[command(flatten)]
    pub budget: BudgetOptions,
}

/// What a model may take on the GPU; what does not fit streams through it.
#[derive(Debug, Clone, Copy, Args)]
pub struct BudgetOptions {
    /// Most memory on the GPU, MiB, everything counted that the engine allocates there [default: all weights
    /// stay on the GPU, or the preset saver where it refuses].
    #[arg(long, value_name = "MIB", conflicts_with = "preset")]
    pub budget_mib: Option<u64>,
    /// A budget by name: lite 512 MiB, saver 2 GiB, fast 6 GiB.
    #[arg(long, value_enum)]
    pub preset: Option<PresetName>,
    /// Largest page that streams, MiB, 4 to 64 [default: that of the preset].
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(4..=64))]
    pub page_mib: Option<u64>,
}

impl BudgetOptions {
    /// The budget, if one is asked for.
    pub fn budget(&self) -> Option<Budget> {
        let preset = self.preset.map(Preset::from);
        let asked = self
            .budget_mib
            .map(|mib| Budget { bytes: mib.saturating_mul(1 << 20), ..Preset::Saver.budget() });
        let mut budget = preset.map(Preset::budget).or(asked)?;
        if let Some(mib) = self.page_mib {
            budget.page_bytes = mib << 20;
        }
        Some(budget)
    }

    /// Prompt tokens per submission: as asked for, or the preset's.
    pub fn batch_tokens(&self, asked: Option<u32>) -> u32 {
        let preset = self.preset.map(|preset| Preset::from(preset).batch_tokens());
        let streaming = self.budget_mib.map(|_| Preset::Saver.batch_tokens());
        asked.or(preset).or(streaming).unwrap_or(BATCH_TOKENS_MAX)
    }
}

/// Presets by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PresetName {
    /// 512 MiB.
    Lite,
    /// 2 GiB.
    Saver,
    /// 6 GiB.
    Fast,
}

impl From<PresetName> for Preset {
    fn from(name: PresetName) -> Self {
        match name {
            PresetName::Lite => Self::Lite,
            PresetName::Saver => Self::Saver,
            PresetName::Fast => Self::Fast,
        }
    }
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
    /// Decode the prompts of this file in every way instead: JSON lines with id, class, split and message.
    #[arg(long, value_name = "FILE")]
    pub suite: Option<PathBuf>,
    /// Ways of a suite [default: a readback per token, plain windows, every width]: WIDTH, or
    /// WIDTH/WINDOW, or WIDTH/WINDOW/IN-FLIGHT.
    #[arg(long, value_name = "WAY", value_delimiter = ',', value_parser = parse_way, requires = "suite")]
    pub ways: Vec<Way>,
    /// Most tokens of a suite's replies.
    #[arg(short = 'n', long = "max-tokens", value_name = "N", default_value_t = 128, requires = "suite")]
    pub token_limit: u32,
    /// Compare the hashes of all logits too; costs time.
    #[arg(long, requires = "suite")]
    pub hash: bool,
    /// Write the suite's prompts and replies as ids, for `replay`.
    #[arg(long, value_name = "FILE", requires = "suite")]
    pub record: Option<PathBuf>,
    /// Print one JSON object per line.
    #[arg(long)]
    pub json: bool,
}

/// Options of `replay`.
#[derive(Debug, Args)]
pub struct ReplayOptions {
    /// Recorded replies, as `bench --suite --record` writes them.
    pub file: PathBuf,
    /// Nodes of a step, the root included.
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub width: u32,
    /// Only recordings of this split.
    #[arg(long, value_name = "NAME")]
    pub split: Option<String>,
    /// Print where learning has brought the reliabilities.
    #[arg(long)]
    pub learned: bool,
    /// Print one JSON object per line.
    #[arg(long)]
    pub json: bool,
}

/// One way of decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// Nodes per step.
    pub width: Width,
    /// Steps per window.
    pub steps: u32,
    /// Windows in flight.
    pub in_flight: u32,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, steps, in_flight } = self;
        let text = match width {
            Width::Off if (*steps, *in_flight) == (1, 1) => "readback per token".into(),
            Width::Off => format!("plain, window {steps}"),
            Width::Nodes(nodes) => format!("width {nodes}, window {steps}"),
        };
        f.pad(&text)
    }
}

fn parse_width(text: &str) -> Result<Width, String> {
    if text == "off" {
        return Ok(Width::Off);
    }
    let nodes = text.parse().ok().filter(|nodes| WIDTHS.contains(nodes));
    nodes.map(Width::Nodes).ok_or_else(|| format!("off or one of {WIDTHS:?} is wanted"))
}

fn parse_way(text: &str) -> Result<Way, String> {
    let mut parts = text.split('/');
    let width = parse_width(parts.next().unwrap_or_default())?;
    let mut number = |default| match parts.next() {
        None => Ok(default),
        Some(part) => part.parse().map_err(|_| format!("{part} is no number")),
    };
    let way = Way { width, steps: number(2)?, in_flight: number(2)? };
    if parts.next().is_some() { Err("WIDTH/WINDOW/IN-FLIGHT is wanted".into()) } else { Ok(way) }
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
