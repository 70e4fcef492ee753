//! What passes between the thread that speaks HTTP and the one that runs the engine.

use tokio::sync::{mpsc, oneshot};

use fanlight_dialects::{ApiError, NormalRequest, ReplyEvent};

/// Errands that nobody has looked at yet: a burst of agents, of which each takes milliseconds.
pub const ERRANDS: usize = 64;
/// Events of a reply that its connection has not taken yet.
pub const EVENTS: usize = 16;

/// What the engine's thread is asked.
pub enum Errand {
    /// A reply.
    Reply(Box<Job>),
    /// How many tokens the prompts of a request have.
    Count(Box<NormalRequest>, oneshot::Sender<Result<u32, ApiError>>),
}

/// A reply that is asked for. It is given up when nobody receives its events any more.
pub struct Job {
    /// What is asked.
    pub request: NormalRequest,
    /// Whose line it waits in.
    pub session: String,
    /// Told once: that it has a place, with the tokens of its prompts, or why not.
    pub admitted: oneshot::Sender<Result<u32, ApiError>>,
    /// Where its events go.
    pub events: mpsc::Sender<ReplyEvent>,
}
