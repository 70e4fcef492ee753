//! The engine's loop: the only door for hosts. One load or one reply at a time; whoever comes meanwhile hears
//! that the engine is busy, and a cancel is heard at any time.

use std::rc::Rc;

use futures::future::{Either, select};
use futures::pin_mut;

use fanlight_messages::draft::WidthPolicy;
use fanlight_messages::error::{DeviceError, GenerateError, LoadError};
use fanlight_messages::limits::RESUMES_MAX;
use fanlight_messages::protocol::Lane;
use fanlight_messages::protocol::Request;
use fanlight_messages::protocol::controller::ForgetCosts;
use fanlight_messages::protocol::engine::*;
use fanlight_messages::protocol::memory::{ForgetMemory, StoreFault};
use fanlight_messages::protocol::pager::{CloseModel, ModelRestored, RestoreModel};
use fanlight_messages::protocol::submitter::{RunEvent, RunId};
use fanlight_messages::protocol::telemetry::{Facts, RecordSample, Reply};

use super::calibrate::Calibration;
use super::journal::Journal;
use super::load::{LoadedModel, load};
use super::prompt::{PreparedReply, detokenize, prepare, tokenize};
use super::quarantine::Quarantine;
use super::remember;
use super::reply::ReplyCore;
use super::telling::{Next, Telling, next};
use super::timing::Timing;
use crate::controller::ControllerMail;
use crate::kit::{Addr, Asked, Clock, Latch, Mail, Mailbox, Reply as ReplyTo, StreamReceiver, StreamSender};
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

/// Mail that arrives while the engine is busy: a question is refused, an interrupt is returned.
fn refuse(mail: Option<EngineMail>) -> Option<Interrupt> {
    match mail {
        None => return Some(Interrupt::HostsGone),
        Some(EngineMail::Cancel(asked)) => return Some(Interrupt::Cancel(asked)),
        Some(EngineMail::Unload(asked)) => return Some(Interrupt::Unload(asked)),
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
            Either::Left((mail, _)) => refuse(mail).map_or(Ok(()), Err)?,
            Either::Right((done, _)) => return Ok(done),
        }
    }
}

impl Engine {
    pub(super) async fn unload(&mut self) -> Result<(), LoadError> {
        self.model = None;
        let facts = self.links.telemetry.facts();
        facts.set(Facts { model: None, quarantined: Vec::new(), ..facts.get() });
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
                self.links.telemetry.facts().set(facts);
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

    /// Generates a reply. `Err` only when an actor is gone.
    async fn generate(
        &mut self,
        asked: Asked<Generate>,
        host: StreamSender<GenerationEvent>,
        asked_us: u64,
        mailbox: &mut Mailbox<EngineMail>,
    ) -> Result<Option<Interrupt>, GenerateError> {
        let request = &asked.request;
        let mut timing = Timing::new(request.queued_us, asked_us, self.links.clock.now_us());
        let prepared = match &self.model {
            Some(model) => prepare(request, model, &self.journal),
            None => Err(GenerateError::NoModel),
        };
        mailbox.note(&prepared);
        timing.prepared(self.links.clock.now_us());
        // The places of the last event and of resumes are reserved first, so that they can always be told.
        let notices = (0..RESUMES_MAX).map_while(|_| host.try_reserve()).collect();
        let (mut prepared, last) = match (prepared, host.try_reserve()) {
            (Ok(prepared), Some(last)) => (prepared, last),
            (Err(error), _) => {
                asked.reply.send(Err(error));
                return Ok(None);
            }
            (Ok(_), None) => return Ok(None),
        };
        if self.is_lost {
            // The reply before was complete when the device went.
            if let Err(error) = self.restore(mailbox, &mut None).await? {
                asked.reply.send(Err(error));
                return Ok(None);
            }
        }
        let (prompt_ids, reused_tokens) = (prepared.prompt.clone(), prepared.base as u32);
        let (scope, key) = (request.memory, prepared.memory_key);
        let recalled = remember::recall(&self.links, scope, key).await?;
        let (memory_tokens, memory_fault) = (recalled.tokens.len() as u32, recalled.fault);
        prepared.setup.memory = recalled.tokens;
        timing.recalled(self.links.clock.now_us(), prompt_ids.len() as u32, reused_tokens);
        let started = GenerationStarted { prompt_ids, reused_tokens, memory_tokens, memory_fault };
        asked.reply.send(Ok(started));
        let mut reply = ReplyCore::new(&prepared, &request.stop);
        let mut telling = Telling { host, notices, interrupt: None, timing, quarantined: Vec::new() };
        let result = self.reply(request, prepared, &mut reply, &mut telling, mailbox).await?;
        mailbox.note(&result);
        let ended = RecordSample::Reply(Reply {
            tokens: reply.shown_tokens(),
            memory_tokens,
            accepted_tokens: reply.accepted_tokens(),
            ..telling.timing.ended(self.links.clock.now_us())
        });
        self.links.telemetry.record(ended);
        // After a failure of the device nothing on it is trusted; a source that failed may work again.
        if !matches!(result, Ok(()) | Err(GenerateError::Source { .. })) && !self.is_lost {
            self.model = None;
        }
        // On a processor one pipeline takes as long as many replies.
        self.calibration.is_wanted = matches!(request.width, WidthPolicy::Auto { .. })
            && self.model.as_ref().is_some_and(|model| !model.is_software && !model.streams);
        let tokens = reply.shown_ids().into();
        let mut end = reply.finish(result, &mut self.journal);
        if let GenerationEvent::Finished(finished) = &mut end {
            finished.memory_fault = remember::learn(&self.links, scope, key, tokens).await?;
            finished.quarantined = telling.quarantined;
        }
        last.send(end);
        Ok(telling.interrupt)
    }

    /// Runs a reply to its end, over again from what was said when the device is lost. The outer `Err` only
    /// when an actor is gone.
    async fn reply(
        &mut self,
        request: &Generate,
        mut run: PreparedReply,
        reply: &mut ReplyCore,
        telling: &mut Telling,
        mailbox: &mut Mailbox<EngineMail>,
    ) -> Result<Result<(), GenerateError>, GenerateError> {
        let setup = run.setup.clone();
        let mut resumes = 0;
        let mut asked_us = telling.timing.heard_us();
        loop {
            let (mut events, answer) = self.begin(&run, request, Some(asked_us)).await?;
            self.follow(reply, &mut events, telling, mailbox).await?;
            let result = answer.wait().await?.map(|over| {
                self.quarantine(&over.quarantined);
                telling.quarantined.extend(over.quarantined);
            });
            let Err(GenerateError::Device(DeviceError::Lost { .. })) = &result else { return Ok(result) };
            // The submitter has dropped what was on the device.
            self.is_lost = true;
            self.journal.clear();
            let Some((prompt, rest)) = reply.resume(&setup) else { return Ok(Ok(())) };
            if resumes == RESUMES_MAX {
                return Ok(result);
            }
            resumes += 1;
            match self.restore(mailbox, &mut telling.interrupt).await? {
                Ok(ModelRestored { same_adapter, adapter, .. }) => {
                    if let Some(place) = telling.notices.pop() {
                        place.send(GenerationEvent::Resumed { same_adapter, adapter });
                    }
                }
                Err(_) if telling.interrupt.is_some() => {
                    reply.cancel();
                    return Ok(Ok(()));
                }
                Err(error) => return Ok(Err(error)),
            }
            asked_us = self.links.clock.now_us();
            let chunk_tokens = self.chunk_tokens(run.chunk_tokens);
            run = PreparedReply { prompt, base: 0, setup: rest, chunk_tokens, ..run };
        }
    }

    /// Brings the model back after its device was lost; mail that interrupts the wait is left in `interrupt`.
    /// The outer `Err` only when an actor is gone.
    async fn restore(
        &mut self,
        mailbox: &mut Mailbox<EngineMail>,
        interrupt: &mut Option<Interrupt>,
    ) -> Result<Result<ModelRestored, GenerateError>, GenerateError> {
        let pager = self.links.pager.clone();
        let restored = match while_busy(mailbox, pager.ask(RestoreModel)).await {
            Ok(restored) => restored.map_err(|_| GenerateError::EngineGone { actor: "pager" })?,
            Err(heard) => {
                *interrupt = Some(heard);
                Err(LoadError::Cancelled)
            }
        };
        mailbox.note(&restored);
        if let Ok(ModelRestored { adapter, quarantined, .. }) = &restored {
            let facts = self.links.telemetry.facts();
            facts.set(Facts {
                adapter: Some(Rc::new(adapter.clone())),
                quarantined: quarantined.iter().cloned().collect(),
                ..facts.get()
            });
        }
        self.is_lost = restored.is_err();
        if let (Ok(restored), Some(model)) = (&restored, &mut self.model) {
            model.quarantine = Quarantine::new(restored.quarantined.as_ref());
        }
        Ok(restored.map_err(|error| {
            let reason = format!("it did not come back: {error}");
            GenerateError::Device(DeviceError::Lost { reason })
        }))
    }

    /// Shows the events of a run to the host until the run is over. Without room at the host no event of the
    /// run is taken, and without that the submitter submits no further window.
    async fn follow(
        &mut self,
        reply: &mut ReplyCore,
        run: &mut StreamReceiver<RunEvent>,
        telling: &mut Telling,
        mailbox: &mut Mailbox<EngineMail>,
    ) -> Result<(), GenerateError> {
        let mut is_ending = false;
        loop {
            // After a stop nothing is shown and nobody is heard: at most two windows are still to come.
            let next = match is_ending {
                true => Next::Event(run.next().await, None),
                false => next(run, &telling.host, mailbox).await,
            };
            let stop = match next {
                Next::Event(None, _) => return Ok(()),
                Next::Event(Some(event), permit) => {
                    telling.timing.heard(&event, self.links.clock.now_us());
                    let shown = reply.observe(event, &mut self.journal);
                    if let (Some(shown), Some(permit)) = (shown, permit) {
                        permit.send(shown);
                    }
                    if reply.shown_tokens() > 0
                        && let Some(phases) = telling.timing.first_token(self.links.clock.now_us())
                    {
                        self.links.telemetry.record(RecordSample::FirstToken(phases));
                    }
                    None
                }
                Next::Mail(mail) => refuse(mail),
                Next::ReaderGone => Some(Interrupt::ReaderGone),
            };
            if stop.is_some() {
                telling.interrupt = stop;
                reply.cancel();
            }
            if !is_ending && (reply.is_cancelled() || reply.has_stopped()) {
                is_ending = true;
                self.end_run().await?;
            }
        }
    }
}
