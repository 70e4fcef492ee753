//! The host's side of a reply that is being generated, and what the engine waits for meanwhile.

use futures::future::{Either, select};
use futures::pin_mut;

use fanlight_messages::device::Quarantined;
use fanlight_messages::limits::RUN_EVENTS;
use fanlight_messages::protocol::engine::{GenerationEvent, LoadProgress, SetBudget};
use fanlight_messages::protocol::submitter::RunEvent;

use super::shell::{EngineMail, Interrupt};
use super::timing::Timing;
use crate::kit::{Asked, Latch, Mailbox, Permit, StreamReceiver, StreamSender};

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
    /// Reserved places for what a run tells that is paused, so that a budget need not wait for the reader.
    pub spare: Vec<Permit<GenerationEvent>>,
    /// Another budget, which was asked for meanwhile.
    pub budget: Option<(Asked<SetBudget>, Latch<LoadProgress>)>,
    /// What ended the reply early.
    pub interrupt: Option<Interrupt>,
    pub timing: Timing,
    /// What the runs of the reply found.
    pub quarantined: Vec<Quarantined>,
}

impl Telling {
    /// Whether the run can be paused now: no budget waits already, and there is a place for everything that
    /// it may still tell.
    pub(super) fn can_pause(&mut self) -> bool {
        let missing = RUN_EVENTS - self.spare.len();
        self.spare.extend((0..missing).map_while(|_| self.host.try_reserve()));
        self.budget.is_none() && self.spare.len() == RUN_EVENTS
    }
}

/// Waits for mail or for an event of a run that is paused, for which a place is reserved.
pub(super) async fn next_paused(
    run: &mut StreamReceiver<RunEvent>,
    spare: &mut Vec<Permit<GenerationEvent>>,
    mailbox: &mut Mailbox<EngineMail>,
) -> Next {
    let (mail, event) = (mailbox.next(), run.next());
    pin_mut!(mail, event);
    match select(mail, event).await {
        Either::Left((mail, _)) => Next::Mail(mail),
        Either::Right((event, _)) => Next::Event(event, spare.pop()),
    }
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
