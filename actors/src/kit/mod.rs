//! The actor kit: a world that runs actors on one thread, mailboxes with two lanes, replies, bounded streams
//! and latched states. Nothing in it is `Send`; the only conditional compilation of this crate is in `world`.

mod clock;
mod gauge;
mod latch;
mod mail;
mod mailbox;
mod queue;
mod turn;
mod world;

pub use fanlight_messages::error::Gone;

pub use clock::Clock;
pub use gauge::Gauge;
pub use latch::Latch;
pub(crate) use mail::mail;
pub use mailbox::{Addr, Answer, Asked, Capacities, Mail, Mailbox, Reply};
pub use queue::{Closed, Permit, StreamReceiver, StreamSender, stream};
pub use turn::yield_now;
pub use world::{Exit, Failure, World};
