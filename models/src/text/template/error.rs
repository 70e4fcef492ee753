//! What can go wrong with a chat template.

use crate::gguf::MetadataError;
use thiserror::Error;

/// Why a template could not be used, or why it does not render these messages.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The key of the template holds something else.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The file has no template: it is a base model, or was converted without one.
    #[error("the file has no chat template: use an instruction-tuned model, or continue raw text")]
    Missing,
    /// The template is not UTF-8.
    #[error("the chat template is not valid UTF-8; the file is damaged")]
    NotUtf8,
    /// The template is larger than any real one.
    #[error("the chat template has {found} bytes but at most {limit} are supported")]
    TooLarge {
        /// Its size in bytes.
        found: usize,
        /// The largest accepted.
        limit: usize,
    },
    /// The template does not parse.
    #[error("the chat template does not parse (line {line}): {reason}; use a newer conversion of the model")]
    Syntax {
        /// Line of the template, from 1; 0 if unknown.
        line: usize,
        /// What the parser says.
        reason: String,
    },
    /// None of the control texts in the template is a piece of the vocabulary.
    #[error(
        "the chat template uses {texts} but the vocabulary has none of them; it belongs to another model"
    )]
    Foreign {
        /// The texts, separated by commas.
        texts: String,
    },
    /// There is nothing to render.
    #[error("there are no messages; send at least one")]
    NoMessages,
    /// The tools are not an array.
    #[error("tools have to be a JSON array of function descriptions")]
    ToolsNotArray,
    /// The template refuses the messages, in its own words.
    #[error("the chat template refuses these messages: {message}")]
    Refused {
        /// What the template says.
        message: String,
    },
    /// The template fails on these messages.
    #[error("the chat template fails (line {line}): {reason}")]
    Failed {
        /// Line of the template, from 1; 0 if unknown.
        line: usize,
        /// What went wrong.
        reason: String,
    },
    /// The template does more work than any real one needs.
    #[error("the chat template exceeds its limit of work (line {line}); it may be hostile")]
    TooMuchWork {
        /// Line of the template, from 1; 0 if unknown.
        line: usize,
    },
    /// The template prints nothing of what the user says, in whatever form it gets it.
    #[error("the chat template does not print the user's message; use a newer conversion of the model")]
    LosesUser,
    /// The prompt is longer than any context.
    #[error("the chat template prints more than {limit} bytes; shorten the messages")]
    OutputTooLong {
        /// The most it may print.
        limit: usize,
    },
    /// Message contents use up every character that could mark control text in them.
    #[error("the messages contain every private-use character, so control text in them cannot be marked")]
    NoSentinel,
}
