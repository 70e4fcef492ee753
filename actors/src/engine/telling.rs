//! The host's side of a reply that is being generated, and what the engine waits for meanwhile.

use futures::future::{Either, select};
use futures::pin_mut;

use fanlight_messages::device::Quarantined;
use fanlight_messages::protocol::engine::GenerationEvent;
use fanlight_messages::protocol::submitter::RunEvent;

use super::shell::{EngineMail, Interrupt};
use super::timing::Timing;
use crate::kit::{Mailbox, Permit, StreamReceiver, StreamSender};

/// What a reply waits for.
pub(super) enum Next {
    Mail(Option<EngineMail>),
    Event(Option<RunEvent>, Option<Permit<GenerationEvent>>),
    ReaderGone,
}

/// The host's side of a reply.
pub(super) struct Telling {
    pub host: StreamSender<GenerationEvent>,
    /// Reserved places, one for each time that the reply may be resumed.
    pub notices: Vec<Permit<GenerationEvent>>,
    /// What ended the reply early.
    pub interrupt: Option<Interrupt>,
    pub timing: Timing,
    /// What the runs of the reply found.
    pub quarantined: Vec<Quarantined>,
}

/// Waits for mail, for the host to leave, or for room at the host and then an event of the run.
pub(super) async fn next(
    run: &mut StreamReceiver<RunEvent>,
    host: &StreamSender<GenerationEvent>,
    mailbox: &mut Mailbox<EngineMail>,
) -> Next {
    let mail = mailbox.next();
    let left = host.closed();
    let event = async {
        match host.reserve().await {
            Ok(permit) => Next::Event(run.next().await, Some(permit)),
            Err(_) => Next::ReaderGone,
        }
    };
    pin_mut!(mail, left, event);
    match select(mail, select(left, event)).await {
        Either::Left((mail, _)) => Next::Mail(mail),
        Either::Right((Either::Left(_), _)) => Next::ReaderGone,
        Either::Right((Either::Right((next, _)), _)) => next,
    }
}
