//! The engine's loop: the only door for hosts. One load or one reply at a time; whoever comes meanwhile hears
//! that the engine is busy, and a cancel is heard at any time.

use std::rc::Rc;

use futures::future::{Either, select};
use futures::pin_mut;

use fanlight_messages::error::{GenerateError, LoadError};
use fanlight_messages::protocol::Lane;
use fanlight_messages::protocol::Request;
use fanlight_messages::protocol::controller::ForgetCosts;
use fanlight_messages::protocol::engine::*;
use fanlight_messages::protocol::memory::{ForgetMemory, StoreFault};
use fanlight_messages::protocol::pager::CloseModel;
use fanlight_messages::protocol::submitter::RunId;
use fanlight_messages::protocol::telemetry::Facts;

use super::calibrate::Calibration;
use super::journal::Journal;
use super::load::{LoadedModel, load};
use super::prompt::{detokenize, tokenize};
use super::remember;
use crate::controller::ControllerMail;
use crate::kit::{Addr, Asked, Clock, Latch, Mail, Mailbox, Reply as ReplyTo, StreamSender};
use crate::memory::MemoryMail;
use crate::pager::PagerMail;
use crate::source::NamedSource;
use crate::submitter::SubmitterMail;
use crate::telemetry::TelemetryLink;

/// What hosts ask.
pub enum EngineMail {
    /// See [`Load`]; beside it the files, and where progress is latched.
    Load(Asked<Load>, Vec<NamedSource>, Latch<LoadProgress>),
    /// See [`SetBudget`]; beside it, where progress is latched.
    Budget(Asked<SetBudget>, Latch<LoadProgress>),
    /// See [`Generate`]; beside it, where its events go, and when it was asked.
    Generate(Asked<Generate>, StreamSender<GenerationEvent>, u64),
    /// See [`Cancel`].
    Cancel(Asked<Cancel>),
    /// See [`Reset`].
    Reset(Asked<Reset>),
    /// See [`ForgetMemory`].
    Forget(Asked<ForgetMemory>),
    /// See [`Unload`].
    Unload(Asked<Unload>),
    /// See [`Tokenize`].
    Tokenize(Asked<Tokenize>),
    /// See [`Detokenize`].
    Detokenize(Asked<Detokenize>),
}

impl Mail for EngineMail {
    fn lane(&self) -> Lane {
        match self {
            Self::Cancel(_) => Cancel::LANE,
            _ => Lane::Inbox,
        }
    }
}

macro_rules! from_asked {
    ($($variant:ident),*) => {$(
        impl From<Asked<$variant>> for EngineMail {
            fn from(asked: Asked<$variant>) -> Self {
                Self::$variant(asked)
            }
        }
    )*};
}
from_asked!(Cancel, Reset, Unload, Tokenize, Detokenize);

impl From<Asked<ForgetMemory>> for EngineMail {
    fn from(asked: Asked<ForgetMemory>) -> Self {
        Self::Forget(asked)
    }
}

/// Whom the engine asks and tells.
#[derive(Clone)]
pub struct EngineLinks {
    /// Files and memory.
    pub pager: Addr<PagerMail>,
    /// The device.
    pub submitter: Addr<SubmitterMail>,
    /// The plan of windows.
    pub controller: Addr<ControllerMail>,
    /// Earlier replies.
    pub memory: Addr<MemoryMail>,
    /// Samples; droppable.
    pub telemetry: TelemetryLink,
    /// Time.
    pub clock: Clock,
}

/// What ended a load or a reply early; to be answered when the engine is idle.
pub(super) enum Interrupt {
    Cancel(Asked<Cancel>),
    Unload(Asked<Unload>),
    /// The consumer of the reply left.
    ReaderGone,
    /// Every host left.
    HostsGone,
}

pub(super) struct Engine {
    pub(super) links: EngineLinks,
    pub(super) model: Option<LoadedModel>,
    pub(super) journal: Journal,
    pub(super) last_run: RunId,
    /// The device was lost after the model had been loaded, and is not back yet.
    pub(super) is_lost: bool,
    pub(super) calibration: Calibration,
}

/// The engine's loop. It ends when every handle is dropped, or with the first of its actors that fails.
pub async fn engine(
    mut mailbox: Mailbox<EngineMail>,
    links: EngineLinks,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut engine = Engine {
        links,
        model: None,
        journal: Journal::default(),
        last_run: RunId::default(),
        is_lost: false,
        calibration: Calibration::default(),
    };
    while let Some(mail) = engine.idle(&mut mailbox).await? {
        let interrupt = match mail {
            EngineMail::Load(asked, sources, progress) => {
                engine.load(asked, sources, progress, &mut mailbox).await?
            }
            EngineMail::Budget(asked, progress) => engine.set_budget(asked, progress, &mut mailbox).await?,
            EngineMail::Generate(asked, events, asked_us) => {
                engine.generate(asked, events, asked_us, &mut mailbox).await?
            }
            EngineMail::Cancel(asked) => Some(Interrupt::Cancel(asked)),
            EngineMail::Reset(asked) => {
                engine.journal.clear();
                remember::reset(&engine.links).await?;
                asked.reply.send(Ok(()));
                None
            }
            EngineMail::Forget(asked) => {
                asked.reply.send(remember::forget(&engine.links).await?);
                None
            }
            EngineMail::Unload(asked) => Some(Interrupt::Unload(asked)),
            EngineMail::Tokenize(asked) => {
                asked.reply.send(tokenize(&asked.request, engine.model.as_ref()));
                None
            }
            EngineMail::Detokenize(asked) => {
                asked.reply.send(detokenize(&asked.request, engine.model.as_ref()));
                None
            }
        };
        match interrupt {
            Some(Interrupt::Cancel(asked)) => asked.reply.send(()),
            Some(Interrupt::Unload(asked)) => {
                let unloaded = engine.unload().await;
                let failed = unloaded.clone();
                asked.reply.send(unloaded);
                failed?;
            }
            Some(Interrupt::HostsGone) => break,
            Some(Interrupt::ReaderGone) | None => {}
        }
    }
    Ok(())
}

/// Mail that arrives while the engine is busy: an interrupt is returned; what `model` alone can tell, text
/// and ids, is answered; other questions are refused.
pub(super) fn refuse(mail: Option<EngineMail>, model: Option<&LoadedModel>) -> Option<Interrupt> {
    match mail {
        None => return Some(Interrupt::HostsGone),
        Some(EngineMail::Cancel(asked)) => return Some(Interrupt::Cancel(asked)),
        Some(EngineMail::Unload(asked)) => return Some(Interrupt::Unload(asked)),
        Some(EngineMail::Load(asked, ..)) => asked.reply.send(Err(LoadError::Busy)),
        Some(EngineMail::Budget(asked, _)) => asked.reply.send(Err(LoadError::Busy)),
        Some(EngineMail::Generate(asked, ..)) => asked.reply.send(Err(GenerateError::Busy)),
        Some(EngineMail::Reset(asked)) => asked.reply.send(Err(GenerateError::Busy)),
        Some(EngineMail::Tokenize(asked)) => {
            let busy = model.ok_or(GenerateError::Busy);
            asked.reply.send(busy.and_then(|model| tokenize(&asked.request, Some(model))));
        }
        Some(EngineMail::Detokenize(asked)) => {
            let busy = model.ok_or(GenerateError::Busy);
            asked.reply.send(busy.and_then(|model| detokenize(&asked.request, Some(model))));
        }
        Some(EngineMail::Forget(asked)) => {
            let reason = "a reply is being generated or a model loaded".into();
            asked.reply.send(Err(StoreFault::Unwritable { reason }));
        }
    }
    None
}

/// Does something that takes long while mail is refused; an interrupt ends it.
pub(super) async fn while_busy<T>(
    mailbox: &mut Mailbox<EngineMail>,
    work: impl Future<Output = T>,
) -> Result<T, Interrupt> {
    pin_mut!(work);
    loop {
        let mail = mailbox.next();
        pin_mut!(mail);
        match select(mail, work.as_mut()).await {
            Either::Left((mail, _)) => refuse(mail, None).map_or(Ok(()), Err)?,
            Either::Right((done, _)) => return Ok(done),
        }
    }
}

impl Engine {
    pub(super) async fn unload(&mut self) -> Result<(), LoadError> {
        self.model = None;
        self.links.telemetry.change_facts(|facts| {
            facts.model = None;
            facts.quarantined.clear();
        });
        self.is_lost = false;
        self.calibration = Calibration::default();
        self.journal.clear();
        remember::reset(&self.links).await.map_err(|_| LoadError::EngineGone { actor: "memory" })?;
        self.links.pager.ask(CloseModel).await.map_err(|_| LoadError::EngineGone { actor: "pager" })?
    }

    /// Loads in place of the model before. `Err` only when an actor is gone.
    async fn load(
        &mut self,
        asked: Asked<Load>,
        sources: Vec<NamedSource>,
        progress: Latch<LoadProgress>,
        mailbox: &mut Mailbox<EngineMail>,
    ) -> Result<Option<Interrupt>, LoadError> {
        self.unload().await?;
        let loading = load(&self.links, &asked.request, sources, progress);
        let (loaded, interrupt) = match while_busy(mailbox, loading).await {
            Ok(loaded) => (loaded, None),
            Err(interrupt) => (Err(LoadError::Cancelled), Some(interrupt)),
        };
        mailbox.note(&loaded);
        match loaded {
            Ok((model, answer)) => {
                let facts = Facts {
                    adapter: Some(Rc::new(answer.adapter.clone())),
                    model: Some(Rc::new(model.facts(&answer.plan))),
                    quarantined: answer.quarantined.iter().cloned().collect(),
                };
                self.links.telemetry.change_facts(|known| *known = facts);
                let told = self.links.controller.tell(ControllerMail::Forget(ForgetCosts)).await;
                told.map_err(|_| LoadError::EngineGone { actor: "controller" })?;
                self.model = Some(model);
                asked.reply.send(Ok(answer));
            }
            Err(error) => self.refuse_model(error, asked.reply).await?,
        }
        Ok(interrupt)
    }

    /// Answers that a model could not be placed, and lets go of it. `Err` only when an actor is gone.
    pub(super) async fn refuse_model<T>(
        &mut self,
        error: LoadError,
        reply: ReplyTo<Result<T, LoadError>>,
    ) -> Result<(), LoadError> {
        let gone = matches!(error, LoadError::EngineGone { .. }).then(|| error.clone());
        reply.send(Err(error));
        gone.map_or(Ok(()), Err)?;
        // The pager stops at its next piece; this waits for it.
        self.unload().await
    }
}
