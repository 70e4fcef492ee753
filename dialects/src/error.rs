//! What can be wrong with a request, and how each dialect says it.

use serde_json::{Value, json};
use thiserror::Error;

use fanlight_messages::error::GenerateError;

/// Whose shape an error has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's, which all that has no shape of its own uses too.
    OpenAi,
    /// Anthropic's.
    Anthropic,
    /// Ollama's.
    Ollama,
}

/// Why a request is not served, or a reply broke off.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApiError {
    /// The body is no JSON.
    #[error("the body is not JSON: {reason}")]
    Json {
        /// What the parser says.
        reason: String,
    },
    /// A field has a type or value that it cannot have.
    #[error("{field} is {found}: give {wanted}")]
    Field {
        /// Which, as a path.
        field: String,
        /// What was there.
        found: String,
        /// What it can be.
        wanted: String,
    },
    /// A field asks for something that would change the reply and is not served.
    #[error("{field} is not supported: {hint}")]
    Unsupported {
        /// Which, as a path.
        field: String,
        /// What to do instead.
        hint: String,
    },
    /// The prompt does not fit the context.
    #[error("the prompt has {tokens} tokens, the context holds {context_len}: shorten it")]
    PromptTooLong {
        /// Its tokens.
        tokens: u64,
        /// Positions of the context.
        context_len: u32,
    },
    /// The chat template refuses the messages.
    #[error("the chat template refuses these messages: {reason}")]
    Template {
        /// Its own words.
        reason: String,
    },
    /// Something else about the request that the engine refuses.
    #[error("{reason}")]
    Refused {
        /// Why, in full.
        reason: String,
    },
    /// There is no key, or a wrong one.
    #[error("no valid key: send \"Authorization: Bearer KEY\" or \"x-api-key: KEY\" with the server's key")]
    Key,
    /// Too many wrong keys within a second.
    #[error("too many wrong keys: wait a second")]
    KeyTries,
    /// The Host header names another host.
    #[error("the host {found} is not this server's: call it as localhost, or start it with --allow-host")]
    Host {
        /// What was there.
        found: String,
    },
    /// The Host header is missing, double or not readable.
    #[error("a request must have one Host header")]
    HostMissing,
    /// A page of another origin asks.
    #[error("pages of {found} may not use this server: start it with --allow-origin {found} to allow them")]
    Origin {
        /// The origin.
        found: String,
    },
    /// Nothing is at this path.
    #[error("{path} is not served")]
    Path {
        /// The path.
        path: String,
    },
    /// The path has another method.
    #[error("{path} does not take {method}: use {allowed}")]
    Method {
        /// The method asked.
        method: String,
        /// The path.
        path: String,
        /// The method that it has.
        allowed: &'static str,
    },
    /// A model that is not the one served.
    #[error("model \"{wanted}\" is not served here: \"{served}\" is")]
    Model {
        /// What was asked for.
        wanted: String,
        /// What there is.
        served: String,
    },
    /// The body is larger than any that is read.
    #[error("the body has more than {limit_bytes} bytes: send less")]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// The body did not arrive.
    #[error("the body did not arrive in time: send it without pauses")]
    BodyLate,
    /// As many requests wait as may.
    #[error("{waiting} requests wait already: try again in {retry_after_s} s")]
    QueueFull {
        /// How many.
        waiting: u32,
        /// When there may be room.
        retry_after_s: u32,
    },
    /// There is no model yet, or none any more.
    #[error("{reason}")]
    NoModel {
        /// Why, and what to do.
        reason: String,
    },
    /// Our fault.
    #[error("{reason}")]
    Internal {
        /// What went wrong.
        reason: String,
    },
}

impl From<GenerateError> for ApiError {
    fn from(error: GenerateError) -> Self {
        let reason = error.to_string();
        match error {
            GenerateError::PromptTooLong { prompt_tokens, context_len } => {
                Self::PromptTooLong { tokens: prompt_tokens, context_len }
            }
            GenerateError::Template { reason } => Self::Template { reason },
            GenerateError::EmptyPrompt
            | GenerateError::MessageTooLong { .. }
            | GenerateError::TokenLimit { .. }
            | GenerateError::Option { .. }
            | GenerateError::Sampling(_)
            | GenerateError::StopText { .. }
            | GenerateError::TokenId { .. } => Self::Refused { reason },
            GenerateError::NoModel => Self::NoModel { reason },
            _ => Self::Internal { reason },
        }
    }
}

impl ApiError {
    /// The status of the response.
    pub fn status(&self) -> u16 {
        match self {
            Self::Json { .. }
            | Self::Field { .. }
            | Self::Unsupported { .. }
            | Self::PromptTooLong { .. }
            | Self::Template { .. }
            | Self::HostMissing
            | Self::Refused { .. } => 400,
            Self::Key => 401,
            Self::Host { .. } | Self::Origin { .. } => 403,
            Self::Path { .. } | Self::Model { .. } => 404,
            Self::Method { .. } => 405,
            Self::BodyLate => 408,
            Self::TooLarge { .. } => 413,
            Self::KeyTries | Self::QueueFull { .. } => 429,
            Self::NoModel { .. } => 503,
            Self::Internal { .. } => 500,
        }
    }

    /// Seconds after which another try makes sense.
    pub fn retry_after_s(&self) -> Option<u32> {
        match self {
            Self::QueueFull { retry_after_s, .. } => Some(*retry_after_s),
            Self::KeyTries => Some(1),
            Self::NoModel { .. } => Some(5),
            _ => None,
        }
    }

    /// The body of a response with this error.
    pub fn body(&self, dialect: Dialect, request_id: &str) -> Value {
        match dialect {
            Dialect::OpenAi => json!({ "error": self.openai() }),
            Dialect::Anthropic => {
                let error = json!({ "type": self.anthropic_type(), "message": self.anthropic_message() });
                json!({ "type": "error", "error": error, "request_id": request_id })
            }
            Dialect::Ollama => json!({ "error": self.ollama_message() }),
        }
    }

    /// The error object of OpenAI's dialect.
    pub(crate) fn openai(&self) -> Value {
        let (kind, code) = self.openai_kind();
        let param = match self {
            Self::Field { field, .. } | Self::Unsupported { field, .. } => Some(field),
            _ => None,
        };
        json!({ "message": self.openai_message(), "type": kind, "param": param, "code": code })
    }

    /// Clients look for these words.
    pub(crate) fn openai_message(&self) -> String {
        match self {
            Self::PromptTooLong { tokens, context_len } => format!(
                "This model's maximum context length is {context_len} tokens. However, your messages \
                 resulted in {tokens} tokens. Please reduce the length of the messages."
            ),
            _ => self.to_string(),
        }
    }

    pub(crate) fn openai_kind(&self) -> (&'static str, Option<&'static str>) {
        let (request, server) = ("invalid_request_error", "server_error");
        match self {
            Self::Unsupported { .. } => (request, Some("unsupported")),
            Self::PromptTooLong { .. } => (request, Some("context_length_exceeded")),
            Self::Template { .. } => (request, Some("template_refused")),
            Self::Key => ("authentication_error", Some("invalid_api_key")),
            Self::Host { .. } | Self::Origin { .. } => ("permission_error", Some("origin_not_allowed")),
            Self::Path { .. } => ("not_found_error", None),
            Self::Model { .. } => ("not_found_error", Some("model_not_found")),
            Self::KeyTries => ("rate_limit_error", Some("key_tries")),
            Self::QueueFull { .. } => ("rate_limit_error", Some("queue_full")),
            Self::NoModel { .. } => (server, Some("no_model")),
            Self::Internal { .. } => (server, Some("internal")),
            _ => (request, None),
        }
    }

    fn anthropic_message(&self) -> String {
        match self {
            Self::PromptTooLong { tokens, context_len } => {
                format!("prompt is too long: {tokens} tokens > {context_len} maximum")
            }
            _ => self.to_string(),
        }
    }

    fn anthropic_type(&self) -> &'static str {
        match self.status() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            503 => "overloaded_error",
            500 => "api_error",
            _ => "invalid_request_error",
        }
    }

    fn ollama_message(&self) -> String {
        match self {
            Self::Model { wanted, .. } => format!("model \"{wanted}\" not found, try pulling it first"),
            _ => self.to_string(),
        }
    }
}
