//! The engine's loop: the only door for hosts. One load or one reply at a time; whoever comes meanwhile hears
//! that the engine is busy, and a cancel is heard at any time.

use futures::future::{Either, select};
use futures::pin_mut;

use fanlight_messages::error::{GenerateError, LoadError};
use fanlight_messages::limits::RUN_EVENTS;
use fanlight_messages::protocol::Lane;
use fanlight_messages::protocol::Request;
use fanlight_messages::protocol::controller::{ConfigurePlan, ForgetCosts};
use fanlight_messages::protocol::engine::*;
use fanlight_messages::protocol::pager::CloseModel;
use fanlight_messages::protocol::submitter::{BeginDecode, EndDecode, RunEvent, RunId};
use fanlight_messages::protocol::telemetry::RecordSample;

use super::journal::Journal;
use super::load::{LoadedModel, load};
use super::prompt::{PreparedReply, prepare};
use super::reply::ReplyCore;
use crate::controller::ControllerMail;
use crate::kit::{
    Addr, Asked, Clock, Gone, Latch, Mail, Mailbox, Permit, StreamReceiver, StreamSender, stream,
};
use crate::pager::PagerMail;
use crate::source::NamedSource;
use crate::submitter::SubmitterMail;
use crate::telemetry::TelemetryLink;

/// What hosts ask.
pub enum EngineMail {
    /// See [`Load`]; beside it the files, and where progress is latched.
    Load(Asked<Load>, Vec<NamedSource>, Latch<LoadProgress>),
    /// See [`Generate`]; beside it, where its events go.
    Generate(Asked<Generate>, StreamSender<GenerationEvent>),
    /// See [`Cancel`].
    Cancel(Asked<Cancel>),
    /// See [`Reset`].
    Reset(Asked<Reset>),
    /// See [`Unload`].
    Unload(Asked<Unload>),
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
from_asked!(Cancel, Reset, Unload);

/// Whom the engine asks and tells.
#[derive(Clone)]
pub struct EngineLinks {
    /// Files and memory.
    pub pager: Addr<PagerMail>,
    /// The device.
    pub submitter: Addr<SubmitterMail>,
    /// The plan of windows.
    pub controller: Addr<ControllerMail>,
    /// Samples; droppable.
    pub telemetry: TelemetryLink,
    /// Time.
    pub clock: Clock,
}

/// What ended a load or a reply early; to be answered when the engine is idle.
enum Interrupt {
    Cancel(Asked<Cancel>),
    Unload(Asked<Unload>),
    /// The consumer of the reply left.
    ReaderGone,
    /// Every host left.
    HostsGone,
}

struct Engine {
    links: EngineLinks,
    model: Option<LoadedModel>,
    journal: Journal,
    last_run: RunId,
}

/// The engine's loop. It ends when every handle is dropped, or with the first of its actors that fails.
pub async fn engine(
    mut mailbox: Mailbox<EngineMail>,
    links: EngineLinks,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut engine = Engine { links, model: None, journal: Journal::default(), last_run: RunId::default() };
    while let Some(mail) = mailbox.next().await {
        let interrupt = match mail {
            EngineMail::Load(asked, sources, progress) => {
                engine.load(asked, sources, progress, &mut mailbox).await?
            }
            EngineMail::Generate(asked, events) => engine.generate(asked, events, &mut mailbox).await?,
            EngineMail::Cancel(asked) => Some(Interrupt::Cancel(asked)),
            EngineMail::Reset(asked) => {
                engine.journal.clear();
                asked.reply.send(Ok(()));
                None
            }
            EngineMail::Unload(asked) => Some(Interrupt::Unload(asked)),
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
        Some(EngineMail::Generate(asked, _)) => asked.reply.send(Err(GenerateError::Busy)),
        Some(EngineMail::Reset(asked)) => asked.reply.send(Err(GenerateError::Busy)),
    }
    None
}

/// What a reply waits for.
enum Next {
    Mail(Option<EngineMail>),
    Event(Option<RunEvent>, Option<Permit<GenerationEvent>>),
    ReaderGone,
}

impl Engine {
    async fn unload(&mut self) -> Result<(), LoadError> {
        self.model = None;
        self.journal.clear();
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
        let mut interrupt = None;
        let loaded = {
            let loading = load(&self.links, &asked.request, sources, progress);
            pin_mut!(loading);
            loop {
                let mail = mailbox.next();
                pin_mut!(mail);
                match select(mail, loading.as_mut()).await {
                    Either::Left((mail, _)) => {
                        interrupt = refuse(mail);
                        if interrupt.is_some() {
                            break Err(LoadError::Cancelled);
                        }
                    }
                    Either::Right((loaded, _)) => break loaded,
                }
            }
        };
        match loaded {
            Ok((model, answer)) => {
                let told = self.links.controller.tell(ControllerMail::Forget(ForgetCosts)).await;
                told.map_err(|_| LoadError::EngineGone { actor: "controller" })?;
                self.model = Some(model);
                asked.reply.send(Ok(answer));
            }
            Err(error) => {
                let gone = matches!(error, LoadError::EngineGone { .. }).then(|| error.clone());
                asked.reply.send(Err(error));
                gone.map_or(Ok(()), Err)?;
                // The pager stops at its next piece; this waits for it.
                self.unload().await?;
            }
        }
        Ok(interrupt)
    }

    /// Generates a reply. `Err` only when an actor is gone.
    async fn generate(
        &mut self,
        asked: Asked<Generate>,
        host: StreamSender<GenerationEvent>,
        mailbox: &mut Mailbox<EngineMail>,
    ) -> Result<Option<Interrupt>, GenerateError> {
        let started_us = self.links.clock.now_us();
        let request = &asked.request;
        let prepared = match &self.model {
            Some(model) => prepare(request, model, &self.journal),
            None => Err(GenerateError::NoModel),
        };
        // The place of the last event is reserved first, so that the end can always be told.
        let (prepared, last) = match (prepared, host.try_reserve()) {
            (Ok(prepared), Some(last)) => (prepared, last),
            (Err(error), _) => {
                asked.reply.send(Err(error));
                return Ok(None);
            }
            (Ok(_), None) => return Ok(None),
        };
        self.last_run = RunId(self.last_run.0 + 1);
        self.journal.truncate(prepared.base);
        let (events, mut run) = stream(RUN_EVENTS);
        let steps_max = request.window_steps;
        let gone = |actor| move |_: Gone| GenerateError::EngineGone { actor };
        let frame_budget_us = request.frame_budget_ms.map(|ms| u64::from(ms) * 1000);
        let configure = ConfigurePlan { steps_max, width: request.width, frame_budget_us };
        let configure = ControllerMail::Configure(configure);
        self.links.controller.tell(configure).await.map_err(gone("controller"))?;
        let begin = begin_decode(&prepared, self.last_run, request);
        let answer = self.links.submitter.start(begin, |asked| SubmitterMail::Begin(asked, events)).await;
        let answer = answer.map_err(gone("submitter"))?;
        let reused_tokens = prepared.base as u32;
        let prompt_ids = prepared.prompt.clone();
        asked.reply.send(Ok(GenerationStarted { prompt_ids, reused_tokens }));

        let PreparedReply { tokenizer, prompt, base, setup, .. } = prepared;
        let mut reply = ReplyCore::new(tokenizer, prompt, base, &request.stop, setup.hash_logits);
        let interrupt = self.follow(&mut reply, &mut run, &host, mailbox, started_us).await?;
        let result = answer.wait().await;
        let failed = result.is_err();
        let event = match result {
            Ok(result) => {
                if result.is_err() {
                    // The submitter has dropped what was on the device.
                    self.model = None;
                }
                reply.finish(result, &mut self.journal)
            }
            Err(_) => GenerationEvent::Failed(GenerateError::EngineGone { actor: "submitter" }),
        };
        last.send(event);
        if failed { Err(GenerateError::EngineGone { actor: "submitter" }) } else { Ok(interrupt) }
    }

    /// Shows the events of a run to the host until the run is over. Without room at the host no event of the
    /// run is taken, and without that the submitter submits no further window.
    async fn follow(
        &mut self,
        reply: &mut ReplyCore,
        run: &mut StreamReceiver<RunEvent>,
        host: &StreamSender<GenerationEvent>,
        mailbox: &mut Mailbox<EngineMail>,
        started_us: u64,
    ) -> Result<Option<Interrupt>, GenerateError> {
        let mut interrupt = None;
        let (mut first_token_us, mut is_ending) = (None, false);
        loop {
            // After a stop nothing is shown and nobody is heard: at most two windows are still to come.
            let next = match is_ending {
                true => Next::Event(run.next().await, None),
                false => next(run, host, mailbox).await,
            };
            let stop = match next {
                Next::Event(None, _) => break,
                Next::Event(Some(event), permit) => {
                    let shown = reply.observe(event, &mut self.journal);
                    if reply.shown_tokens() > 0 && first_token_us.is_none() {
                        first_token_us = Some(self.links.clock.now_us().saturating_sub(started_us));
                    }
                    if let (Some(shown), Some(permit)) = (shown, permit) {
                        permit.send(shown);
                    }
                    None
                }
                Next::Mail(mail) => refuse(mail),
                Next::ReaderGone => Some(Interrupt::ReaderGone),
            };
            if stop.is_some() {
                interrupt = stop;
                reply.cancel();
            }
            if !is_ending && (reply.is_cancelled() || reply.has_stopped()) {
                is_ending = true;
                let end = EndDecode { run: self.last_run };
                let told = self.links.submitter.start(end, Into::into).await;
                told.map_err(|_| GenerateError::EngineGone { actor: "submitter" })?;
            }
        }
        if let Some(first_token_us) = first_token_us {
            let tokens = reply.shown_tokens();
            self.links.telemetry.record(RecordSample::Reply { tokens, first_token_us });
        }
        Ok(interrupt)
    }
}

fn begin_decode(prepared: &PreparedReply, run: RunId, request: &Generate) -> BeginDecode {
    BeginDecode {
        run,
        setup: prepared.setup.clone(),
        base: prepared.base as u32,
        tokens: prepared.prompt[prepared.base..].into(),
        chunk_tokens: prepared.chunk_tokens,
        windows_in_flight: request.windows_in_flight,
        width: request.width,
    }
}

/// Waits for mail, for the host to leave, or for room at the host and then an event of the run.
async fn next(
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
