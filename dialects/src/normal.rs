//! The one form that every dialect's request becomes.

use fanlight_messages::protocol::chat::{ChatTool, ChatTurn};
use fanlight_messages::sampling::{Sampling, SamplingOptions};

use crate::error::ApiError;
use crate::fields::Fields;

/// Messages of a conversation: an agent of a day has some hundreds.
pub(crate) const MESSAGES_MAX: usize = 4096;
/// Tools of a request: the richest agents send some tens.
pub(crate) const TOOLS_MAX: usize = 512;
/// Texts that may end a reply: as many as the engine looks for.
pub(crate) const STOPS_MAX: usize = 16;
/// Replies to one prompt, and prompts of one request.
pub(crate) const REPLIES_MAX: u32 = 8;

/// What a reply continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptForm {
    /// A conversation through the chat template.
    Chat {
        /// The messages, oldest first.
        turns: Vec<ChatTurn>,
        /// Functions that the model may call.
        tools: Vec<ChatTool>,
    },
    /// Text as it is.
    Raw {
        /// The text.
        text: String,
        /// Whether control text in it becomes control tokens.
        parse_special: bool,
    },
    /// Token ids as they are.
    Ids(Vec<u32>),
}

/// Whether the model may, must or must not call a function.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Choice {
    /// It may.
    #[default]
    Auto,
    /// It must not: tools are not shown to it.
    None,
    /// It must call one.
    Required,
    /// It must call this one.
    Named(String),
}

/// The form of the answer's text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Format {
    /// Any.
    #[default]
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON of this schema, which is JSON as text.
    JsonSchema(String),
}

/// A request, whoever's dialect it came in.
#[derive(Debug, Clone, PartialEq)]
pub struct NormalRequest {
    /// The model that was asked for, as it was written; possibly empty.
    pub model: String,
    /// What to continue; more than one only where a dialect has lists of prompts.
    pub prompts: Vec<PromptForm>,
    /// Replies to each prompt.
    pub replies: u32,
    /// Whether the prompt's text comes before the reply's.
    pub echo: bool,
    /// Which function may or must be called.
    pub choice: Choice,
    /// Whether one reply may call several functions.
    pub parallel: bool,
    /// The form of the answer.
    pub format: Format,
    /// Most tokens of the reply; `None` for as many as fit.
    pub limit: Option<u32>,
    /// Texts that end the reply.
    pub stop: Vec<String>,
    /// How tokens are chosen; the seed counts where `has_seed`.
    pub sampling: SamplingOptions,
    /// Whether the request names a seed.
    pub has_seed: bool,
    /// Whether the model thinks before it answers; `None` leaves it to the server.
    pub think: Option<bool>,
    /// Whether the reply is streamed.
    pub stream: bool,
    /// Whether a stream tells what the reply took.
    pub usage_in_stream: bool,
    /// What requests of one conversation have in common, where the client says so.
    pub session: Option<String>,
}

impl NormalRequest {
    /// One reply to one prompt, everything else at its default.
    pub(crate) fn new(prompt: PromptForm) -> Self {
        Self {
            model: String::new(),
            prompts: vec![prompt],
            replies: 1,
            echo: false,
            choice: Choice::Auto,
            parallel: true,
            format: Format::Text,
            limit: None,
            stop: Vec::new(),
            sampling: SamplingOptions::default(),
            has_seed: false,
            think: None,
            stream: false,
            usage_in_stream: false,
            session: None,
        }
    }

    /// Sets the seed where there is one; as elsewhere −1 asks for any.
    pub(crate) fn set_seed(&mut self, seed: Option<i64>) {
        if let Some(seed) = seed.filter(|seed| *seed != -1) {
            (self.sampling.seed, self.has_seed) = (seed as u64, true);
        }
    }

    /// Whether the model is to call functions.
    pub fn offers_tools(&self) -> bool {
        let has_tools =
            |prompt: &PromptForm| matches!(prompt, PromptForm::Chat { tools, .. } if !tools.is_empty());
        self.choice != Choice::None && self.prompts.iter().any(has_tools)
    }
}

/// Checks numbers of the choice before a token is counted; the names of fields are the engine's.
pub(crate) fn check_sampling(options: &SamplingOptions) -> Result<(), ApiError> {
    let checked = Sampling::new(options.clone());
    checked.map(drop).map_err(|error| ApiError::Field {
        field: error.option.replace([' ', '-'], "_"),
        found: error.wanted,
        wanted: error.allowed,
    })
}

/// Texts that end a reply, none of them empty.
pub(crate) fn stops(fields: &Fields<'_>, field: &str) -> Result<Vec<String>, ApiError> {
    let stops = fields.texts(field, STOPS_MAX)?;
    match stops.iter().any(String::is_empty) {
        true => Err(fields.wrong(field, "texts that are not empty")),
        false => Ok(stops),
    }
}
