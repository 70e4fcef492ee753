//! One protocol per actor: requests, replies and events, as data.
//!
//! A request is a struct named by an imperative, its answer is named by a participle. The way back, streams
//! and handles travel beside a message and never in it, so messages can be compared, logged and replayed.

pub mod chat;
pub mod controller;
pub mod engine;
pub mod memory;
pub mod pager;
pub mod submitter;
pub mod telemetry;

/// A question to an actor.
pub trait Request: std::fmt::Debug + Clone + PartialEq + 'static {
    /// Its answer.
    type Reply: 'static;
    /// Where it queues.
    const LANE: Lane = Lane::Inbox;
}

/// The two queues of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Polled first: stop, cancel, observe.
    Control,
    /// Everything else, in order.
    Inbox,
}
