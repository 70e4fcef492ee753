//! Addresses, mailboxes and replies.

use std::fmt::Display;

use futures::channel::oneshot;
use futures::future::{Either, select};
use futures::pin_mut;

use fanlight_messages::protocol::{Lane, Request};

use super::Gone;
use super::gauge::Gauge;
use super::queue::{Closed, StreamReceiver, StreamSender, stream};

/// What an actor's mailbox holds: an enum of its questions, each with its way back and whatever travels
/// beside it.
pub trait Mail: 'static {
    /// Where it queues.
    fn lane(&self) -> Lane;
}

/// Places of the two lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacities {
    /// Control lane.
    pub control: usize,
    /// Inbox.
    pub inbox: usize,
}

/// A question on its way: the message and the way back.
pub struct Asked<R: Request> {
    /// The message.
    pub request: R,
    /// The way back.
    pub reply: Reply<R::Reply>,
}

/// Answers one question; dropping it tells the asker [`Gone`].
pub struct Reply<T>(oneshot::Sender<T>);

impl<T> Reply<T> {
    /// Answers; an asker that lost interest is no error.
    pub fn send(self, answer: T) {
        let _ = self.0.send(answer);
    }

    /// True once the asker dropped its question.
    pub fn is_abandoned(&self) -> bool {
        self.0.is_canceled()
    }

    /// Does what was asked for as long as somebody waits for the answer: `None` once the asker dropped its
    /// question, and the work with it.
    pub async fn while_wanted<W>(&mut self, work: impl Future<Output = W>) -> Option<W> {
        let abandoned = self.0.cancellation();
        pin_mut!(work);
        match select(work, abandoned).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }
}

pub(super) fn mailbox<M>(name: &'static str, capacities: Capacities) -> (Addr<M>, Mailbox<M>) {
    let (control, control_receiver) = stream(capacities.control);
    let (inbox, inbox_receiver) = stream(capacities.inbox);
    let gauge = Gauge::new(name, capacities, [control.counts(), inbox.counts()]);
    let mailbox = Mailbox { control: control_receiver, inbox: inbox_receiver, gauge: gauge.clone() };
    (Addr { control, inbox, gauge }, mailbox)
}

/// The receiving end of both lanes. Dropping it answers every waiting question with [`Gone`].
pub struct Mailbox<M> {
    control: StreamReceiver<M>,
    inbox: StreamReceiver<M>,
    gauge: Gauge,
}

impl<M> Mailbox<M> {
    /// The next message, control first; `None` once every address is dropped and nothing is left.
    pub async fn next(&mut self) -> Option<M> {
        let control = self.control.next();
        let inbox = self.inbox.next();
        pin_mut!(control, inbox);
        // Both ends of both lanes live in the same addresses, so the lanes end together; what is left is read
        // first.
        match select(control, inbox).await {
            Either::Left((Some(message), _)) => Some(message),
            Either::Left((None, inbox)) => inbox.await,
            Either::Right((Some(message), _)) => Some(message),
            Either::Right((None, control)) => control.await,
        }
    }

    /// Notes what failed, for telemetry.
    pub fn note<T, E: Display>(&self, result: &Result<T, E>) {
        if let Err(error) = result {
            self.gauge.fail(error);
        }
    }

    /// Answers a question, and notes when the answer is a failure.
    pub fn answer<T, E: Display>(&self, reply: Reply<Result<T, E>>, result: Result<T, E>) {
        self.note(&result);
        reply.send(result);
    }

    /// The next control message; `None` once every address is dropped and no control message is left.
    pub async fn next_control(&mut self) -> Option<M> {
        self.control.next().await
    }
}

/// The sending end, cloneable.
pub struct Addr<M> {
    control: StreamSender<M>,
    inbox: StreamSender<M>,
    gauge: Gauge,
}

impl<M> Clone for Addr<M> {
    fn clone(&self) -> Self {
        Self { control: self.control.clone(), inbox: self.inbox.clone(), gauge: self.gauge.clone() }
    }
}

impl<M> Addr<M> {
    /// What can be seen of the actor without asking it. It outlives the actor and does not keep it.
    pub fn gauge(&self) -> Gauge {
        self.gauge.clone()
    }
}

impl<M: Mail> Addr<M> {
    fn lane(&self, lane: Lane) -> &StreamSender<M> {
        match lane {
            Lane::Control => &self.control,
            Lane::Inbox => &self.inbox,
        }
    }

    /// What askers are told when the actor has ended.
    fn gone(&self) -> Gone {
        Gone { actor: self.gauge.name() }
    }

    /// Sends a message, waiting while its lane is full.
    ///
    /// # Errors
    /// [`Gone`] when the actor ended.
    pub async fn tell(&self, message: M) -> Result<(), Gone> {
        self.lane(message.lane()).send(message).await.map_err(|Closed| self.gone())
    }

    /// Sends a message if its lane has room; false when it was dropped.
    pub fn try_tell(&self, message: M) -> bool {
        let lane = message.lane();
        match self.lane(lane).try_reserve() {
            Some(permit) => {
                permit.send(message);
                true
            }
            None => {
                self.gauge.drop_one(lane);
                false
            }
        }
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// [`Gone`] when the actor ends before it answers.
    pub async fn ask<R: Request>(&self, request: R) -> Result<R::Reply, Gone>
    where
        M: From<Asked<R>>,
    {
        self.ask_with(request, M::from).await
    }

    /// Asks with things beside the message: `wrap` puts them together.
    ///
    /// # Errors
    /// [`Gone`] when the actor ends before it answers.
    pub async fn ask_with<R: Request>(
        &self,
        request: R,
        wrap: impl FnOnce(Asked<R>) -> M,
    ) -> Result<R::Reply, Gone> {
        self.start(request, wrap).await?.wait().await
    }

    /// Asks, and leaves it to the caller when to wait for the answer.
    ///
    /// # Errors
    /// [`Gone`] when the actor has ended.
    pub async fn start<R: Request>(
        &self,
        request: R,
        wrap: impl FnOnce(Asked<R>) -> M,
    ) -> Result<Answer<R::Reply>, Gone> {
        let (sender, receiver) = oneshot::channel();
        self.tell(wrap(Asked { request, reply: Reply(sender) })).await?;
        Ok(Answer { receiver, actor: self.gauge.name() })
    }
}

/// An answer that is awaited; dropping it tells the actor that nobody is interested any more.
pub struct Answer<T> {
    receiver: oneshot::Receiver<T>,
    actor: &'static str,
}

impl<T> Answer<T> {
    /// Waits for it.
    ///
    /// # Errors
    /// [`Gone`] when the actor ends before it answers.
    pub async fn wait(self) -> Result<T, Gone> {
        self.receiver.await.map_err(|_| Gone { actor: self.actor })
    }
}
