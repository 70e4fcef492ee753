//! The engine is the only door for hosts: load, generate, cancel, reset, unload.

use std::rc::Rc;

pub use super::chat::{ChatCall, ChatRole, ChatTool, ChatTools, ChatTurn};
use super::memory::{MemoryScope, StoreFault};
use super::{Lane, Request};
use crate::control::{StepRecord, WINDOWS_IN_FLIGHT};
use crate::device::{AdapterFacts, Quarantined};
use crate::draft::{DEPTH_MAX, ORDERS, WidthPolicy};
use crate::error::{GenerateError, LoadError};
use crate::plan::{BATCH_TOKENS_MAX, Budget, GpuPlan, KvFormat};
use crate::reply::{ReplyPart, Think};
use crate::sampling::Sampling;

/// Loads a model in place of the one before. The byte sources travel beside the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// Positions of the context; `None` takes the default or the file's, whichever is less.
    pub context_len: Option<u32>,
    /// Prompt tokens per batch.
    pub batch_tokens: u32,
    /// Cache format.
    pub kv_format: KvFormat,
    /// What it may take on the device; what does not fit streams through. `None` tries with all weights on
    /// the device and falls back to [`Preset::Saver`](crate::plan::Preset) when the device refuses.
    pub budget: Option<Budget>,
    /// Bytes of host memory that keep pages between passes.
    pub cache_bytes: u64,
}

impl Default for Load {
    /// The longest batch, the smaller cache format, everything on the device.
    fn default() -> Self {
        Self {
            context_len: None,
            batch_tokens: BATCH_TOKENS_MAX,
            kv_format: KvFormat::F16,
            budget: None,
            cache_bytes: 0,
        }
    }
}

/// The answer to [`Load`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelLoaded {
    /// `general.name` of the file, or empty.
    pub name: String,
    /// Positions of the context.
    pub context_len: u32,
    /// Token ids.
    pub vocabulary_len: u32,
    /// Whether the file has a usable chat template.
    pub has_chat_template: bool,
    /// What runs it.
    pub adapter: AdapterFacts,
    /// Bytes on the device.
    pub gpu_bytes: u64,
    /// Bytes read from the files.
    pub read_bytes: u64,
    /// The plan that is obeyed.
    pub plan: Rc<GpuPlan>,
    /// True when the device refused a larger one.
    pub was_reduced: bool,
    /// What prompts must not use on this device, which makes them slow.
    pub quarantined: Option<Quarantined>,
}

impl Request for Load {
    type Reply = Result<ModelLoaded, LoadError>;
}

/// Plans the loaded model anew under another budget and places it by that plan; the files stay open, the
/// conversation in the cache is forgotten. While a reply is generated it takes effect after the pass under
/// way, and the reply goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetBudget {
    /// As in [`Load`].
    pub budget: Option<Budget>,
    /// As in [`Load`].
    pub batch_tokens: u32,
}

/// The answer to [`SetBudget`]: the plan that is obeyed now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetSet {
    /// The plan.
    pub plan: Rc<GpuPlan>,
    /// True when the device refused a larger one.
    pub was_reduced: bool,
    /// Bytes on the device.
    pub gpu_bytes: u64,
    /// Bytes read from the files.
    pub read_bytes: u64,
    /// As in [`ModelLoaded`].
    pub quarantined: Option<Quarantined>,
}

impl Request for SetBudget {
    /// A budget that does not hold the least leaves the model as it was; another failure ends it.
    type Reply = Result<BudgetSet, LoadError>;
}

/// How far a load is; a latched state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadProgress {
    /// What is being done.
    pub phase: LoadPhase,
    /// Units done: bytes of weights, or pipelines.
    pub done: u64,
    /// Units in all, 0 while unknown.
    pub total: u64,
}

/// The phases of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadPhase {
    /// Reading the header and planning.
    #[default]
    Header,
    /// Bringing weights to the device, in bytes.
    Weights,
    /// Compiling pipelines, in pipelines.
    Pipelines,
}

/// A date and time of the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallTime {
    /// Year of the Gregorian calendar.
    pub year: i32,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 60.
    pub second: u8,
}

/// What a reply continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// A conversation through the file's chat template.
    Chat {
        /// The messages, oldest first.
        turns: Vec<ChatTurn>,
        /// Functions that the model may call.
        tools: ChatTools,
        /// Whether a model that can think before it answers is asked to.
        think: Think,
        /// The host's time, for templates that print a date.
        now: WallTime,
    },
    /// Text as it is, after the file's begin token where its rule wants one; control tokens are recognised.
    Raw(String),
    /// Token ids as they are.
    Ids(Rc<[u32]>),
}

/// Generates a reply. Its events travel on a stream beside the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generate {
    /// What to continue.
    pub prompt: Prompt,
    /// Most tokens of the reply.
    pub token_limit: u32,
    /// Prompt tokens per batch; `None` takes the loaded batch.
    pub chunk_tokens: Option<u32>,
    /// Steps per window: 1, 2 or 4; `None` lets the controller choose.
    pub window_steps: Option<u32>,
    /// Windows submitted before the oldest is read: 2, or 1 to wait for each.
    pub windows_in_flight: u32,
    /// Nodes per step.
    pub width: WidthPolicy,
    /// Device time of each frame that windows may take, milliseconds, so that a page keeps drawing; at
    /// least 1.
    pub frame_budget_ms: Option<u32>,
    /// Texts that end the reply where they first occur; they are not part of it.
    pub stop: Vec<String>,
    /// Whether the logits that chose each token are hashed.
    pub hash_logits: bool,
    /// Whether what the cache holds of an equal beginning is used.
    pub reuse_prefix: bool,
    /// How tokens are chosen.
    pub sampling: Rc<Sampling>,
    /// How far it is remembered, and earlier replies for it. Never changes the reply.
    pub memory: MemoryScope,
    /// Microseconds that it had waited before the engine could be asked, for telemetry.
    pub queued_us: u64,
}

impl Generate {
    /// With everything else at its default: the loaded batch, windows as measured, no drafts, no stop text,
    /// no hash, the prefix reused, always the most likely token, no memory.
    pub fn new(prompt: Prompt, token_limit: u32) -> Self {
        Self {
            prompt,
            token_limit,
            chunk_tokens: None,
            window_steps: None,
            windows_in_flight: WINDOWS_IN_FLIGHT,
            width: WidthPolicy::default(),
            frame_budget_ms: None,
            stop: Vec::new(),
            hash_logits: false,
            reuse_prefix: true,
            sampling: Rc::default(),
            memory: MemoryScope::Off,
            queued_us: 0,
        }
    }
}

/// The answer to [`Generate`]: it has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerationStarted {
    /// The prompt.
    pub prompt_ids: Rc<[u32]>,
    /// How many of its tokens the cache already held.
    pub reused_tokens: u32,
    /// Tokens of earlier replies that drafts may be made from, separators included.
    pub memory_tokens: u32,
    /// Why nothing of the host's store is among them.
    pub memory_fault: Option<StoreFault>,
}

impl Request for Generate {
    type Reply = Result<GenerationStarted, GenerateError>;
}

/// What is turned into ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenizeInput {
    /// A prompt, as [`Generate`] would take it.
    Prompt(Prompt),
    /// Text by itself.
    Text {
        /// The text.
        text: String,
        /// Whether control text in it becomes control tokens.
        recognise_control: bool,
        /// Whether the file's begin token stands before it, where its rule wants one.
        add_begin: bool,
    },
}

/// Turns text into ids; nothing is generated. The answer is the ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokenize {
    /// What.
    pub input: TokenizeInput,
}

impl Request for Tokenize {
    type Reply = Result<Rc<[u32]>, GenerateError>;
}

/// Turns ids into the text of a continuation; control tokens are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detokenize {
    /// The ids.
    pub ids: Vec<u32>,
}

impl Request for Detokenize {
    type Reply = Result<String, GenerateError>;
}

/// Stops the reply being generated, or the load; answered when the engine is idle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel;

impl Request for Cancel {
    type Reply = ();
    const LANE: Lane = Lane::Control;
}

/// Forgets the conversation: the next prompt is evaluated from its first token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reset;

impl Request for Reset {
    type Reply = Result<(), GenerateError>;
}

/// Frees everything that the model holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unload;

impl Request for Unload {
    type Reply = Result<(), LoadError>;
}

/// What a reply consists of; the last event is `Finished` or `Failed`.
#[derive(Debug, Clone, PartialEq)]
pub enum GenerationEvent {
    /// A prompt batch was evaluated.
    Prefilled {
        /// Prompt tokens in the cache.
        done: u32,
        /// Prompt tokens in all.
        total: u32,
    },
    /// A pass whose weights stream is this far.
    Advanced {
        /// Pages of it that are submitted.
        done: u32,
        /// Pages in all.
        total: u32,
    },
    /// The reply went on.
    Tokens {
        /// New token ids.
        ids: Vec<u32>,
        /// New text by what it is for, in order: whole characters only, possibly none. What is said in answer
        /// to a prompt that is no conversation is content.
        parts: Vec<ReplyPart>,
    },
    /// The device was lost and is back; the reply goes on where it was.
    Resumed {
        /// Whether adapter and driver are those of before. On another one the rest of the reply may differ
        /// from what it would have been.
        same_adapter: bool,
        /// The adapter.
        adapter: AdapterFacts,
    },
    /// The reply is complete.
    Finished(ReplyFinished),
    /// The reply broke off.
    Failed(GenerateError),
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it.
    Stop,
    /// The token limit or the context ended it.
    Length,
    /// The host ended it.
    Cancelled,
}

/// The end of a reply and what it took.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyFinished {
    /// Why it ended.
    pub reason: FinishReason,
    /// Tokens of the reply.
    pub tokens: u32,
    /// Text held back until the end: an unfinished character, replaced, or the beginning of a stop text.
    pub parts: Vec<ReplyPart>,
    /// Functions that it calls; one that was cut off does not count.
    pub calls: u32,
    /// Which of the stop texts ended it.
    pub stop_text: Option<String>,
    /// The hash of the logits that chose each token, when it was asked for.
    pub logits_hash: Option<u32>,
    /// What it took.
    pub stats: ReplyStats,
    /// Why the host's store does not have it, where it was to be remembered there.
    pub memory_fault: Option<StoreFault>,
    /// Widths that were found not to agree with plain decoding on this device. The reply went on without
    /// them, and so do the next.
    pub quarantined: Vec<Quarantined>,
}

/// What drafts were worth: counts over the live steps of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DraftStats {
    /// Nodes that were verified besides the roots.
    pub verified: u32,
    /// Nodes that were accepted.
    pub accepted: u32,
    /// Steps that accepted exactly this many nodes, 0 to 8.
    pub accepted_by_depth: [u32; 9],
    /// Steps whose longest match had this length, 0 to 8.
    pub match_len: [u32; 9],
}

impl DraftStats {
    /// Adds the counts of other steps.
    pub fn merge(&mut self, other: &Self) {
        self.verified += other.verified;
        self.accepted += other.accepted;
        let depths = self.accepted_by_depth.iter_mut().zip(other.accepted_by_depth);
        let lengths = self.match_len.iter_mut().zip(other.match_len);
        depths.chain(lengths).for_each(|(sum, more)| *sum += more);
    }

    /// Counts a step.
    pub fn add(&mut self, step: &StepRecord) {
        self.verified += step.live.saturating_sub(1);
        self.accepted += step.accepted;
        self.accepted_by_depth[step.accepted.min(DEPTH_MAX) as usize] += 1;
        self.match_len[step.match_len.min(ORDERS) as usize] += 1;
    }
}

/// What a reply took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplyStats {
    /// Prompt tokens evaluated.
    pub prefill_tokens: u32,
    /// Microseconds of prompt batches.
    pub prefill_us: u64,
    /// Steps that were live.
    pub steps: u32,
    /// Windows submitted.
    pub windows: u32,
    /// Tokens that windows emitted: all but the first, which the prompt's last batch chooses.
    pub decode_tokens: u32,
    /// Microseconds of windows.
    pub decode_us: u64,
    /// Dispatches of windows.
    pub decode_dispatches: u64,
    /// Steps of all windows, those after the end included.
    pub submitted_steps: u32,
    /// What drafting was worth.
    pub drafting: DraftStats,
    /// Nanoseconds that choosing a token from its logits takes with these options, within each step. It is
    /// measured when a reply with such options is over; `None` before.
    pub choice_ns: Option<u64>,
}
