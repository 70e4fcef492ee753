//! The actor kit: a world that runs actors on one thread, mailboxes with two lanes, replies, bounded streams
//! and latched states. Nothing in it is `Send`; the only conditional compilation of this crate is in `world`.

mod clock;
mod gauge;
mod latch;
mod mailbox;
mod queue;
mod turn;
mod world;

pub use clock::Clock;
pub use gauge::Gauge;
pub use latch::Latch;
pub use mailbox::{Addr, Answer, Asked, Capacities, Mail, Mailbox, Reply};
pub use queue::{Permit, StreamReceiver, StreamSender, stream};
pub use turn::yield_now;
pub use world::{Exit, Failure, World};

/// The other side is gone: the actor ended or failed, or the reader dropped its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the other side is gone")]
pub struct Gone;
