//! The engine's mailbox: what it hears while it is idle, and what while it is busy.

use std::fmt::Display;

use futures::FutureExt;
use futures::future::{Either, select};
use futures::pin_mut;

use fanlight_messages::error::{GenerateError, LoadError};
use fanlight_messages::protocol::engine::{Cancel, LoadProgress, SetBudget, Unload};
use fanlight_messages::protocol::memory::StoreFault;

use super::mail::EngineMail;
use crate::kit::{Asked, Latch, Mailbox};

/// What ends a load or a reply early; answered when the engine is idle.
pub(super) enum Stop {
    Cancel(Asked<Cancel>),
    Unload(Asked<Unload>),
    /// The reader of the reply left.
    ReaderGone,
    /// Every host left.
    HostsGone,
}

/// Another budget, and where its progress is latched.
pub(super) type BudgetAsked = (Asked<SetBudget>, Latch<LoadProgress>);

/// What happened first while the engine was busy.
pub(super) enum Heard<T> {
    Done(T),
    Stop(Stop),
    Budget(BudgetAsked),
}

/// The only reader of the mailbox.
pub(super) struct Door(Mailbox<EngineMail>);

impl Door {
    pub(super) fn new(mailbox: Mailbox<EngineMail>) -> Self {
        Self(mailbox)
    }

    /// Notes what failed, for telemetry.
    pub(super) fn note<T, E: Display>(&self, result: &Result<T, E>) {
        self.0.note(result);
    }

    /// The next mail; `None` once every host has left.
    pub(super) async fn next(&mut self) -> Option<EngineMail> {
        self.0.next().await
    }

    /// The next mail if it is there already.
    pub(super) fn try_next(&mut self) -> Option<Option<EngineMail>> {
        self.0.next().now_or_never()
    }

    /// Waits for `work`, or for mail that comes before it is done.
    pub(super) async fn or<T>(
        &mut self,
        work: impl Future<Output = T> + Unpin,
    ) -> Result<T, Option<EngineMail>> {
        let mail = self.0.next();
        pin_mut!(mail);
        match select(mail, work).await {
            Either::Left((mail, _)) => Err(mail),
            Either::Right((done, _)) => Ok(done),
        }
    }

    /// Waits for `work`; meanwhile questions are refused. What stops it comes first, and so does another
    /// budget where one `can_pause` for it.
    pub(super) async fn during<T>(
        &mut self,
        can_pause: bool,
        mut work: impl Future<Output = T> + Unpin,
    ) -> Heard<T> {
        loop {
            let stop = match self.or(&mut work).await {
                Ok(done) => return Heard::Done(done),
                Err(Some(EngineMail::Budget(asked, progress))) if can_pause => {
                    return Heard::Budget((asked, progress));
                }
                Err(mail) => refuse(mail),
            };
            if let Some(stop) = stop {
                return Heard::Stop(stop);
            }
        }
    }

    /// Waits for work that a stop ends.
    pub(super) async fn while_busy<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Stop> {
        pin_mut!(work);
        loop {
            match self.or(work.as_mut()).await {
                Ok(done) => return Ok(done),
                Err(mail) => refuse(mail).map_or(Ok(()), Err)?,
            }
        }
    }
}

/// Mail that arrives while the engine is busy: a question is refused, a stop is returned.
fn refuse(mail: Option<EngineMail>) -> Option<Stop> {
    match mail {
        None => return Some(Stop::HostsGone),
        Some(EngineMail::Cancel(asked)) => return Some(Stop::Cancel(asked)),
        Some(EngineMail::Unload(asked)) => return Some(Stop::Unload(asked)),
        Some(EngineMail::Load(asked, ..)) => asked.reply.send(Err(LoadError::Busy)),
        Some(EngineMail::Budget(asked, _)) => asked.reply.send(Err(LoadError::Busy)),
        Some(EngineMail::Generate(asked, ..)) => asked.reply.send(Err(GenerateError::Busy)),
        Some(EngineMail::Reset(asked)) => asked.reply.send(Err(GenerateError::Busy)),
        Some(EngineMail::Tokenize(asked)) => asked.reply.send(Err(GenerateError::Busy)),
        Some(EngineMail::Detokenize(asked)) => asked.reply.send(Err(GenerateError::Busy)),
        Some(EngineMail::Forget(asked)) => {
            let reason = "a reply is being generated or a model loaded".into();
            asked.reply.send(Err(StoreFault::Unwritable { reason }));
        }
    }
    None
}
