//! What can go wrong between a host and the engine, by phase. Every text says what was wanted, what was there
//! and what to do.

use thiserror::Error;

use crate::sampling::SamplingError;

/// The device refused or vanished.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no device to run on.
    #[error("no usable gpu: {reason}; update the driver or the browser")]
    Unavailable {
        /// What the platform said.
        reason: String,
    },
    /// The device is gone and everything on it with it.
    #[error("the gpu device was lost: {reason}; load the model again")]
    Lost {
        /// What the platform said.
        reason: String,
    },
    /// The device has no memory left although the plan was within the budget.
    #[error("the gpu is out of memory while {phase}: close other pages, or choose a shorter context")]
    OutOfMemory {
        /// What was being done.
        phase: String,
    },
    /// The device refused a buffer, a shader or a submission.
    #[error("the gpu refused {phase}: {reason}; this is a bug, please report it")]
    Refused {
        /// What was being done.
        phase: String,
        /// What the platform said.
        reason: String,
    },
    /// A request was made in an order that the device does not serve.
    #[error("the gpu has no model loaded: load one first")]
    NoModel,
}

/// Bytes of a model file could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The platform failed.
    #[error("reading {bytes} bytes at offset {offset} failed: {reason}; check the file and try again")]
    Failed {
        /// First byte wanted.
        offset: u64,
        /// Bytes wanted.
        bytes: u64,
        /// What the platform said.
        reason: String,
    },
    /// The source is no longer what it was when it was opened.
    #[error("the file changed while it was in use: load the model again")]
    Changed,
    /// The source is shorter than it said.
    #[error("{bytes} bytes at offset {offset} wanted, the source ends at {len}: it changed or is incomplete")]
    Short {
        /// First byte wanted.
        offset: u64,
        /// Bytes wanted.
        bytes: u64,
        /// Length of the source.
        len: u64,
    },
}

/// A model that could not be loaded. Nothing of it stays behind.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A model is being loaded or a reply generated.
    #[error("the engine is busy: cancel the reply or wait for the load, then load again")]
    Busy,
    /// An option is outside its range.
    #[error("{option} {wanted} is out of range: use {min} to {max}")]
    Option {
        /// Which option.
        option: &'static str,
        /// Its value.
        wanted: u64,
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// The bytes could not be read.
    #[error("{file}: {error}")]
    Source {
        /// Which file.
        file: String,
        /// Why.
        error: SourceError,
    },
    /// The header is not that of a usable model file.
    #[error("{file}: {reason}")]
    Header {
        /// Which file.
        file: String,
        /// Why, in full.
        reason: String,
    },
    /// The architecture or its shapes are not supported.
    #[error("unsupported model: {reason}")]
    Model {
        /// Why, in full.
        reason: String,
    },
    /// The tokenizer or the chat template cannot be built.
    #[error("unusable tokenizer: {reason}")]
    Text {
        /// Why, in full.
        reason: String,
    },
    /// The model cannot be laid out on this adapter as asked.
    #[error("no memory plan: {reason}")]
    Plan {
        /// Why, in full.
        reason: String,
    },
    /// The plan exceeds the budget.
    #[error(
        "{} bytes are missing: the model needs {wanted_bytes} on the gpu at least, {budget_bytes} are \
         allowed; raise the budget or shorten the context",
        wanted_bytes.saturating_sub(*budget_bytes)
    )]
    OverBudget {
        /// Bytes of the plan.
        wanted_bytes: u64,
        /// The budget.
        budget_bytes: u64,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The load was cancelled by the host.
    #[error("the load was cancelled")]
    Cancelled,
    /// The engine ended.
    #[error("the engine has ended ({actor} is gone): start a new one")]
    EngineGone {
        /// Which of its actors failed.
        actor: &'static str,
    },
}

/// A reply that could not be generated, or not to its end. The next request is served.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// No model is loaded.
    #[error("no model is loaded: load one first")]
    NoModel,
    /// Another reply is being generated or a model loaded.
    #[error("the engine is busy with another request: wait for it or cancel it")]
    Busy,
    /// There is nothing to continue.
    #[error("the prompt holds no token: give it some text")]
    EmptyPrompt,
    /// The prompt does not fit the context.
    #[error(
        "the prompt has {prompt_tokens} tokens, the context holds {context_len}: shorten the prompt, or \
         load the model with a longer context"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt_tokens: u64,
        /// Positions of the context.
        context_len: u32,
    },
    /// A message is longer than any that is served.
    #[error("a message has {characters} characters, at most {max} are served: shorten it")]
    MessageTooLong {
        /// Its characters.
        characters: u64,
        /// The limit.
        max: u64,
    },
    /// The token limit is outside its range.
    #[error("a limit of {wanted} tokens is out of range: use {min} to {max}")]
    TokenLimit {
        /// Tokens asked for.
        wanted: u32,
        /// Smallest limit.
        min: u32,
        /// Largest limit.
        max: u32,
    },
    /// An option is outside its range.
    #[error("{option} {wanted} is out of range: use {allowed}")]
    Option {
        /// Which option.
        option: &'static str,
        /// Its value.
        wanted: u32,
        /// What is possible, for people.
        allowed: String,
    },
    /// A sampling option cannot be served.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// A stop text that cannot be looked for.
    #[error("stop texts: {reason}")]
    StopText {
        /// What is wrong with them.
        reason: String,
    },
    /// A prompt id that the model does not have.
    #[error("token id {id} at position {position} of the prompt, the model has ids 0 to {max}")]
    TokenId {
        /// The id.
        id: u32,
        /// Where.
        position: u64,
        /// Largest id.
        max: u32,
    },
    /// The chat template refused the messages, or there is none that can be used.
    #[error("{reason}")]
    Template {
        /// Why, in full.
        reason: String,
    },
    /// The tokenizer failed.
    #[error("the tokenizer failed: {reason}")]
    Text {
        /// Why, in full.
        reason: String,
    },
    /// An activation or a logit was NaN or infinite; what was computed cannot be trusted.
    #[error("the model computed a value that is not a number after {tokens} tokens: the file may be damaged")]
    Poisoned {
        /// Tokens emitted before.
        tokens: u32,
    },
    /// Weights that stream could not be read. The model stays loaded.
    #[error("{file}: {error}")]
    Source {
        /// Which file.
        file: String,
        /// Why.
        error: SourceError,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The engine ended.
    #[error("the engine has ended ({actor} is gone): start a new one")]
    EngineGone {
        /// Which of its actors failed.
        actor: &'static str,
    },
}

/// Why costs that a host kept are not used. They are measured again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CostRecordError {
    /// It is no record, or a damaged one.
    #[error("the record of costs is damaged ({reason}): it is not used, costs are measured again")]
    Corrupt {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// It has another format.
    #[error("the record of costs has format {found}, this is format {wanted}: costs are measured again")]
    Version {
        /// Its format.
        found: u32,
        /// The format of this build.
        wanted: u32,
    },
    /// It was written for something else.
    #[error("the record of costs is of another adapter, model or build: costs are measured again")]
    Foreign,
}

/// Why costs could not be kept or looked up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CostStoreError {
    /// The host's store failed.
    #[error("costs could not be kept or looked up: {reason}")]
    Store {
        /// Why, in full.
        reason: String,
    },
    /// The engine ended.
    #[error("the engine has ended (controller is gone): start a new one")]
    EngineGone,
}
