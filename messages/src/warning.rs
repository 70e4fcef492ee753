//! What is odd about a model or a conversation and does not prevent an answer: one list, from load and from
//! render, that every host shows.

use thiserror::Error;

/// Something a person should know: the work goes on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Warning {
    /// The file does not say how text is split, so ids may differ from those the model was trained on.
    #[error("the file names no pre-tokenizer; a generic rule is used and answers may be worse")]
    PreTokenizerMissing,
    /// Some byte values have no piece.
    #[error("{count} byte values that occur in text have no token; characters that need them are lost")]
    UnencodableBytes {
        /// How many byte values.
        count: usize,
    },
    /// The file types control tokens as ordinary text.
    #[error("the file types {names} as ordinary text; they are used as control tokens")]
    ControlTypedAsText {
        /// Their texts, separated by commas.
        names: String,
    },
    /// The template has control texts that are no tokens.
    #[error(
        "the chat template uses {names}, which the vocabulary lacks; they reach the model as ordinary text"
    )]
    ControlTextsMissing {
        /// The texts, separated by commas.
        names: String,
    },
    /// There is no template: a base model, or a file that was converted without one.
    #[error("the file has no chat template: the model continues plain text and holds no conversation")]
    NoChatTemplate,
    /// There is a template, and it cannot be used.
    #[error("the chat template cannot be used, so the model holds no conversation: {reason}")]
    ChatTemplateUnusable {
        /// Why, in full.
        reason: String,
    },
    /// The template prints no system message.
    #[error("the chat template leaves out system messages: they are put before the user's message")]
    SystemLeftOut,
    /// The template prints no earlier reply of the model.
    #[error("the chat template leaves out the model's earlier replies: it does not know what it said")]
    RepliesLeftOut,
    /// The template prints messages in another order, or more than once.
    #[error("the chat template prints messages out of order or more than once: answers may be worse")]
    OutOfOrder,
    /// Neighbours of one role became one message, because the template refuses them.
    #[error("the chat template refuses two messages of one role in a row: they were joined")]
    NeighboursJoined,
    /// System messages were put before a message of the user, because the template refuses them or leaves
    /// them out.
    #[error("the chat template takes no system message here: its text was put before the user's message")]
    SystemMovedToUser,
}

impl Warning {
    /// A short name that programs can tell warnings apart by; it never changes.
    pub fn code(&self) -> &'static str {
        match self {
            Self::PreTokenizerMissing => "pre-tokenizer-missing",
            Self::UnencodableBytes { .. } => "unencodable-bytes",
            Self::ControlTypedAsText { .. } => "control-typed-as-text",
            Self::ControlTextsMissing { .. } => "control-texts-missing",
            Self::NoChatTemplate => "no-chat-template",
            Self::ChatTemplateUnusable { .. } => "chat-template-unusable",
            Self::SystemLeftOut => "system-left-out",
            Self::RepliesLeftOut => "replies-left-out",
            Self::OutOfOrder => "out-of-order",
            Self::NeighboursJoined => "neighbours-joined",
            Self::SystemMovedToUser => "system-moved-to-user",
        }
    }
}
