//! What can be said on the command line.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use fanlight_messages::draft::{NODES_MAX, WIDTHS, Width, WidthPolicy};
use fanlight_messages::limits::CONTEXT_LEN_DEFAULT;
use fanlight_messages::plan::{BATCH_TOKENS_MAX, Budget, KvFormat, Preset};
use fanlight_messages::reply::Think;

use crate::chat::ChatOptions;
use crate::connect::ConnectOptions;
use crate::files::Reads;
use crate::library::{ListOptions, ShowOptions};
use crate::sampling::SamplingArgs;
use crate::serve::ServeOptions;

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
    Run(Box<RunOptions>),
    /// Show what a model file holds and what it would take on the GPU, to the byte.
    Inspect(InspectOptions),
    /// Compare, on this adapter, every pair of pipelines that may compute the same token: all bits must
    /// agree.
    Verify(VerifyOptions),
    /// Measure how fast a model loads, reads prompts and decodes.
    Bench(BenchOptions),
    /// Show what each drafter would have been worth on recorded replies.
    Replay(ReplayOptions),
    /// Talk to a model, turn by turn.
    Chat(Box<ChatOptions>),
    /// Serve a model to other programs: OpenAI's interface at http://127.0.0.1:8787/v1.
    Serve(Box<ServeOptions>),
    /// Print what other programs must know of a running server, or start one of them with it.
    Connect(ConnectOptions),
    /// List the models that Ollama, LM Studio and the Hugging Face cache keep on this computer.
    List(ListOptions),
    /// Show what a model is.
    Show(ShowOptions),
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
            Self::Chat(_) | Self::Connect(_) | Self::Serve(_) | Self::Show(_) => false,
            Self::List(options) => options.json,
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
    /// Decode steps per submission: 1, 2 or 4, or auto to choose as measured.
    #[arg(long, value_name = "W", default_value = "auto", value_parser = parse_window)]
    pub window: Window,
    /// Prompt tokens per submission, 1 to 512 [default: 512; under a budget 32, or the preset's].
    #[arg(long, value_name = "N")]
    pub chunk: Option<u32>,
    /// Format of the key/value cache.
    #[arg(long, value_enum, default_value_t = Kv::F16)]
    pub kv: Kv,
    /// What the model may take on the GPU.
    #[command(flatten)]
    pub budget: BudgetOptions,
    /// Host memory that keeps streamed pages between passes, MiB.
    #[arg(long, value_name = "MIB", default_value_t = 0)]
    pub cache_mib: u64,
    /// Nodes of the draft tree that a step verifies: off, 1, 2, 4, 8, 16 or 32, or auto to choose as it goes
    /// [default: auto, or off where a processor computes]. Never changes the answer.
    #[arg(long, value_name = "N", value_parser = parse_width)]
    pub width: Option<WidthPolicy>,
    /// Where it is kept what steps cost on this machine, so that the next run with --width auto need not
    /// find out again: a folder, or off [default: fanlight in the user's cache folder].
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Milliseconds of GPU time that decoding may take of each frame of a screen, so that others can draw.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..))]
    pub frame_budget: Option<u32>,
    /// How tokens are chosen.
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// Draft from earlier replies that this file remembers, and remember the reply in it. Never changes the
    /// answer.
    #[arg(long, value_name = "FILE")]
    pub memory: Option<PathBuf>,
    /// First forget what the memory file holds.
    #[arg(long, requires = "memory")]
    pub forget_memory: bool,
    /// End the reply before this text; may be given several times.
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// Whether a model that can think before it answers does so; template leaves it to the model's chat
    /// template.
    #[arg(long, value_enum, default_value_t = ThinkSwitch::Off)]
    pub think: ThinkSwitch,
    /// Show what the model thinks before it answers, on the standard error output.
    #[arg(long)]
    pub show_thinking: bool,
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
    /// Read the file past the operating system's cache: for a model larger than the memory (Linux).
    #[arg(long)]
    pub direct: bool,
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

    /// How the file is read.
    pub fn reads(&self) -> Reads {
        if self.direct { Reads::Direct } else { Reads::Cached }
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
    /// Ways of a suite [default: a readback per token, plain windows, every width, auto]: WIDTH as of run, or
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

/// Steps per window; `None` is chosen as measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window(pub Option<u32>);

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(steps) => write!(f, "{steps}"),
            None => f.write_str("auto"),
        }
    }
}

/// One way of decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// Nodes per step.
    pub width: WidthPolicy,
    /// Steps per window.
    pub steps: Window,
    /// Windows in flight.
    pub in_flight: u32,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, steps, in_flight } = self;
        let text = match width {
            WidthPolicy::Fixed(Width::Off) if (*steps, *in_flight) == (Window(Some(1)), 1) => {
                "readback per token".into()
            }
            WidthPolicy::Fixed(Width::Off) => format!("plain, window {steps}"),
            WidthPolicy::Fixed(Width::Nodes(nodes)) => format!("width {nodes}, window {steps}"),
            WidthPolicy::Auto { .. } => format!("auto, window {steps}"),
        };
        f.pad(&text)
    }
}

fn parse_width(text: &str) -> Result<WidthPolicy, String> {
    match text {
        "off" => return Ok(WidthPolicy::Fixed(Width::Off)),
        "auto" => return Ok(WidthPolicy::Auto { max: NODES_MAX }),
        _ => {}
    }
    let nodes = text.parse().ok().filter(|nodes| WIDTHS.contains(nodes));
    let width = nodes.map(|nodes| WidthPolicy::Fixed(Width::Nodes(nodes)));
    width.ok_or_else(|| format!("off, auto or one of {WIDTHS:?} is wanted"))
}

fn parse_window(text: &str) -> Result<Window, String> {
    match text {
        "auto" => Ok(Window(None)),
        _ => text.parse().map(|steps| Window(Some(steps))).map_err(|_| format!("{text} is no number")),
    }
}

fn parse_way(text: &str) -> Result<Way, String> {
    let mut parts = text.split('/');
    let width = parse_width(parts.next().unwrap_or_default())?;
    let steps = parts.next().map_or(Ok(Window(Some(2))), parse_window)?;
    let in_flight = match parts.next() {
        None => 2,
        Some(part) => part.parse().map_err(|_| format!("{part} is no number"))?,
    };
    let way = Way { width, steps, in_flight };
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

/// Whether to think, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ThinkSwitch {
    /// Think before answering.
    On,
    /// Answer at once.
    Off,
    /// As the chat template does when nothing is said.
    Template,
}

impl From<ThinkSwitch> for Think {
    fn from(switch: ThinkSwitch) -> Self {
        match switch {
            ThinkSwitch::On => Self::On,
            ThinkSwitch::Off => Self::Off,
            ThinkSwitch::Template => Self::Template,
        }
    }
}

// The help text above names the default.
const _: () = assert!(CONTEXT_LEN_DEFAULT == 4096);
