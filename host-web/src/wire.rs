//! What crosses the border between the worker's script and the engine. The page's types are generated from
//! these.

use serde::{Deserialize, Serialize};
use tsify::Tsify;

use fanlight_gpu::selftest::Scope;
use fanlight_messages::device::AdapterFacts;
use fanlight_messages::protocol::engine::*;
use fanlight_messages::protocol::memory::MemoryScope;
use fanlight_messages::sampling::{Sampling, SamplingError, SamplingOptions};

/// The machine that computes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct Adapter {
    /// Name that the browser gives.
    pub name: String,
    /// Driver, as far as the browser tells.
    pub driver: String,
    /// True when a processor computes in place of a GPU.
    pub is_software: bool,
}

impl From<&AdapterFacts> for Adapter {
    fn from(facts: &AdapterFacts) -> Self {
        Self { name: facts.name.clone(), driver: facts.driver.clone(), is_software: facts.kind.is_software() }
    }
}

/// How far a load is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tsify)]
#[serde(tag = "phase", rename_all = "kebab-case")]
pub enum Progress {
    /// Reading the header.
    Header,
    /// Bringing weights to the GPU, in bytes.
    Weights {
        /// So far.
        done: u64,
        /// In all.
        total: u64,
    },
    /// Reading whole files for their hash, in bytes.
    Check {
        /// So far.
        done: u64,
        /// In all.
        total: u64,
    },
    /// Compiling pipelines, or comparing them.
    Pipelines {
        /// So far.
        done: u64,
        /// In all.
        total: u64,
    },
}

impl From<LoadProgress> for Progress {
    fn from(LoadProgress { phase, done, total }: LoadProgress) -> Self {
        match phase {
            LoadPhase::Header => Self::Header,
            LoadPhase::Weights => Self::Weights { done, total },
            LoadPhase::Pipelines => Self::Pipelines { done, total },
        }
    }
}

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Tsify)]
#[serde(rename_all = "lowercase")]
pub enum Speaker {
    /// Instructions.
    System,
    /// The visitor.
    User,
    /// The model.
    Assistant,
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Tsify)]
pub struct Turn {
    /// Who.
    pub role: Speaker,
    /// What.
    pub content: String,
}

/// What a reply continues.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Tsify)]
#[serde(tag = "form", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum PromptText {
    /// A conversation, oldest message first.
    Chat {
        /// Its messages.
        turns: Vec<Turn>,
        /// Whether a model that can think before it answers may do so.
        #[serde(default)]
        #[tsify(optional)]
        think: bool,
    },
    /// Text as it is.
    Plain {
        /// The text.
        text: String,
        /// Whether control text in it becomes control tokens.
        #[serde(default)]
        #[tsify(optional)]
        parse_special: bool,
    },
}

/// What is turned into ids.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Tsify)]
#[serde(tag = "form", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum TokenizeRequest {
    /// A conversation, as a reply would continue it.
    Chat {
        /// Its messages.
        turns: Vec<Turn>,
        /// Whether a model that can think before it answers may do so.
        #[serde(default)]
        #[tsify(optional)]
        think: bool,
    },
    /// Text by itself.
    Plain {
        /// The text.
        text: String,
        /// Whether control text in it becomes control tokens.
        #[serde(default)]
        #[tsify(optional)]
        parse_special: bool,
        /// Whether the model's begin token stands before it, where the model wants one.
        #[serde(default)]
        #[tsify(optional)]
        add_begin: bool,
    },
}

/// How far replies are remembered for drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Tsify)]
#[serde(rename_all = "lowercase")]
pub enum Remember {
    /// Not at all.
    Off,
    /// Until the conversation is reset or another model loaded.
    Conversation,
    /// In the browser, for as long as it keeps it.
    Origin,
}

impl From<Remember> for MemoryScope {
    fn from(remember: Remember) -> Self {
        match remember {
            Remember::Off => Self::Off,
            Remember::Conversation => Self::Conversation,
            Remember::Origin => Self::Origin,
        }
    }
}

/// Asks for a reply.
#[derive(Debug, Clone, PartialEq, Deserialize, Tsify)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplyRequest {
    /// What to continue.
    pub prompt: PromptText,
    /// Most tokens of the reply.
    pub token_limit: u32,
    /// Texts that end the reply where they first occur; absent for none.
    #[serde(default)]
    #[tsify(optional)]
    pub stop: Vec<String>,
    /// Nodes of the draft tree that a step verifies: 1, 2, 4, 8, 16 or 32, or 0 for none; absent to choose
    /// as it goes. Never changes the reply.
    #[tsify(optional)]
    pub width: Option<u32>,
    /// Steps per submission: 1, 2 or 4; absent to choose as measured.
    #[tsify(optional)]
    pub window_steps: Option<u32>,
    /// Submissions ahead of the one that is read: 1 or 2; absent for two.
    #[tsify(optional)]
    pub windows_in_flight: Option<u32>,
    /// 0 takes the most likely token each time, which absent means too; above, tokens are drawn.
    #[tsify(optional)]
    pub temperature: Option<f64>,
    /// Draw among this many most likely tokens; 0 or absent for all.
    #[tsify(optional)]
    pub top_k: Option<u32>,
    /// Draw among the most likely tokens whose probabilities reach this sum, 0 to 1; absent for all.
    #[tsify(optional)]
    pub top_p: Option<f64>,
    /// Draw among tokens at least this part as likely as the most likely one, 0 to 1; absent for all.
    #[tsify(optional)]
    pub min_p: Option<f64>,
    /// Divides logits of repeated tokens where positive, else multiplies them; absent for 1.
    #[tsify(optional)]
    pub repeat_penalty: Option<f64>,
    /// Lowers a token's logit for each time that the reply has it; absent for 0.
    #[tsify(optional)]
    pub frequency_penalty: Option<f64>,
    /// Lowers a token's logit once the reply has it; absent for 0.
    #[tsify(optional)]
    pub presence_penalty: Option<f64>,
    /// Token ids and what is added to their logits; absent for none.
    #[serde(default)]
    #[tsify(optional)]
    pub logit_bias: Vec<(u32, f64)>,
    /// Where draws come from, a whole number from 0 to 2^53: an equal seed and prompt give an equal reply.
    /// Absent for another one each time.
    #[tsify(optional)]
    pub seed: Option<u64>,
    /// Milliseconds of a submission at most, so that others can draw between; absent for no such bound. Never
    /// changes the reply.
    #[tsify(optional)]
    pub frame_budget_ms: Option<u32>,
    /// Whether drafts are made from earlier replies too; absent for not. Never changes the reply.
    #[tsify(optional)]
    pub memory: Option<Remember>,
    /// Microseconds that it has waited since the page asked, for telemetry.
    #[tsify(optional)]
    pub queued_us: Option<u64>,
}

impl ReplyRequest {
    /// How tokens are chosen; `random_seed` is taken where none is asked for.
    ///
    /// # Errors
    /// The first option that cannot be served.
    pub fn sampling(&self, random_seed: u64) -> Result<Sampling, SamplingError> {
        let neutral = SamplingOptions::default();
        Sampling::new(SamplingOptions {
            temperature: self.temperature.unwrap_or(neutral.temperature),
            top_k: self.top_k.unwrap_or(neutral.top_k),
            top_p: self.top_p.unwrap_or(neutral.top_p),
            min_p: self.min_p.unwrap_or(neutral.min_p),
            repeat_penalty: self.repeat_penalty.unwrap_or(neutral.repeat_penalty),
            frequency_penalty: self.frequency_penalty.unwrap_or(neutral.frequency_penalty),
            presence_penalty: self.presence_penalty.unwrap_or(neutral.presence_penalty),
            logit_bias: self.logit_bias.clone(),
            seed: self.seed.unwrap_or(random_seed),
            ..neutral
        })
    }
}

/// What a reply does without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "kebab-case")]
pub enum WarningCode {
    /// What the browser kept of earlier replies is of no use; it is begun anew.
    MemoryDropped,
    /// The browser keeps nothing for another visit.
    NotRemembered,
}

/// What happens while a reply is generated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum ReplyEvent {
    /// It has begun.
    Started {
        /// Tokens of the prompt.
        prompt_tokens: u32,
        /// How many of them were in the cache.
        reused_tokens: u32,
        /// Tokens of earlier replies that drafts may be made from.
        memory_tokens: u32,
        /// Bytes of keys and values on the GPU.
        kv_bytes: u64,
        /// Bytes of all buffers there.
        gpu_bytes: u64,
    },
    /// Something that is no failure: the reply goes on.
    Warned {
        /// What sort.
        code: WarningCode,
        /// What it is, for the visitor.
        message: String,
    },
    /// A pass whose weights stream through the GPU is this far.
    Advanced {
        /// Pages of it that are submitted.
        done: u32,
        /// Pages in all.
        total: u32,
    },
    /// A part of the prompt was read.
    Prefilled {
        /// Prompt tokens in the cache.
        done: u32,
        /// Prompt tokens in all.
        total: u32,
    },
    /// It went on.
    Tokens {
        /// New ids.
        ids: Vec<u32>,
        /// New text.
        text: String,
    },
    /// The GPU was lost and is back; the reply goes on.
    Resumed {
        /// Whether it is the same GPU. On another one the text may differ from what it would have been.
        same_adapter: bool,
    },
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// The model ended it.
    Stop,
    /// The token limit or the context ended it.
    Length,
    /// The visitor ended it.
    Cancelled,
}

impl From<FinishReason> for EndReason {
    fn from(reason: FinishReason) -> Self {
        match reason {
            FinishReason::Stop => Self::Stop,
            FinishReason::Length => Self::Length,
            FinishReason::Cancelled => Self::Cancelled,
        }
    }
}

/// The end of a reply and what it took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct ReplyEnd {
    /// Why.
    pub reason: EndReason,
    /// Text that was held back until the end.
    pub text: String,
    /// Tokens of the reply.
    pub tokens: u32,
    /// Prompt tokens that were in the cache already.
    pub reused_tokens: u32,
    /// Prompt tokens evaluated.
    pub prefill_tokens: u32,
    /// Microseconds of it.
    pub prefill_us: u64,
    /// Tokens after the first.
    pub decode_tokens: u32,
    /// Microseconds of them.
    pub decode_us: u64,
    /// Steps that brought them.
    pub steps: u32,
    /// Nanoseconds of choosing a token within each step, once measured: after a reply with such options.
    #[tsify(optional)]
    pub choice_ns: Option<u64>,
    /// What was found that this GPU must not use; the reply went on without.
    pub quarantined: Vec<String>,
}

impl ReplyEnd {
    /// Of a finished reply.
    pub fn new(finished: &ReplyFinished, reused_tokens: u32) -> Self {
        let ReplyStats { prefill_tokens, prefill_us, decode_tokens, decode_us, steps, choice_ns, .. } =
            finished.stats;
        Self {
            reason: finished.reason.into(),
            text: finished.text.clone(),
            tokens: finished.tokens,
            reused_tokens,
            prefill_tokens,
            prefill_us,
            decode_tokens,
            decode_us,
            steps,
            choice_ns,
            quarantined: finished.quarantined.iter().map(ToString::to_string).collect(),
        }
    }
}

/// How much of this GPU is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Tsify)]
#[serde(rename_all = "lowercase")]
pub enum VerifyScope {
    /// Every pair of pipelines.
    Whole,
    /// A few pairs in which everything occurs once: for a processor, which compiles for seconds.
    Cover,
}

impl From<VerifyScope> for Scope {
    fn from(scope: VerifyScope) -> Self {
        match scope {
            VerifyScope::Whole => Self::Whole,
            VerifyScope::Cover => Self::Cover,
        }
    }
}

/// What the check of a GPU found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
pub struct Verification {
    /// Pairs of pipelines that were compared.
    pub compared: u32,
    /// Those that differ, each with its first difference.
    pub differences: Vec<String>,
}
