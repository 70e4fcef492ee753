//! What other programs' protocols say, as data: request bytes to one normal form, events of a reply to
//! response bytes. No I/O, no clock, no chance: what comes from outside is an argument, so equal inputs give
//! equal bytes.
//!
//! ```text
//! bytes ── read ──> NormalRequest ──> the engine ──> ReplyEvent ── ReplyWriter ──> bytes
//! ```
//!
//! A field that is not known is ignored, as the protocols ask; a known one that would change the reply and
//! cannot be honoured is refused, by its name.

pub mod anthropic;
pub mod endpoint;
mod error;
mod fields;
mod json;
mod normal;
pub mod ollama;
pub mod openai;
mod reply;
pub mod responses;
mod served;

pub use error::{ApiError, Dialect};
pub use json::REQUEST_BYTES_MAX;
pub use normal::{Choice, Format, NormalRequest, PromptForm};
pub use reply::{
    Collected, Ending, Framing, ReplyEvent, ReplyFacts, ReplyForm, ReplyPart, ReplyWriter, Usage,
};
pub use served::ServedModel;
