//! A reply, from the request to its last event: runs that are begun, followed and, where one breaks off, gone
//! on with.

use std::rc::Rc;

use fanlight_messages::device::RequestSetup;
use fanlight_messages::error::{DeviceError, GenerateError, LoadError};
use fanlight_messages::limits::{RESUMES_MAX, RUN_EVENTS};
use fanlight_messages::protocol::engine::*;
use fanlight_messages::protocol::pager::{ModelRestored, RestoreModel};
use fanlight_messages::protocol::submitter::RunEvent;
use fanlight_messages::protocol::telemetry::{RecordSample, Reply};

use super::prompt::{PreparedReply, prepare};
use super::quarantine::Quarantine;
use super::remember;
use super::reply::ReplyCore;
use super::shell::{Engine, EngineMail, Interrupt, refuse, while_busy};
use super::telling::{Next, Telling, next, next_paused};
use super::timing::Timing;
use crate::kit::{Asked, Mailbox, StreamReceiver, StreamSender};

impl Engine {
    /// Generates a reply. `Err` only when an actor is gone.
    pub(super) async fn generate(
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
        let spare = (0..RUN_EVENTS).map_while(|_| host.try_reserve()).collect();
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
        let mut telling =
            Telling { host, notices, spare, interrupt: None, budget: None, timing, quarantined: Vec::new() };
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
        let choice_ns = self.plan_measurements(request);
        let tokens = reply.shown_ids().into();
        let mut end = reply.finish(result, &mut self.journal);
        if let GenerationEvent::Finished(finished) = &mut end {
            finished.memory_fault = remember::learn(&self.links, scope, key, tokens).await?;
            finished.quarantined = std::mem::take(&mut telling.quarantined);
            finished.stats.choice_ns = choice_ns;
        }
        last.send(end);
        self.late_budget(telling, mailbox).await
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
            let is_lost = matches!(&result, Err(GenerateError::Device(DeviceError::Lost { .. })));
            if !is_lost && (result.is_err() || telling.budget.is_none()) {
                return Ok(result);
            }
            if is_lost {
                // The submitter has dropped what was on the device.
                self.is_lost = true;
                self.journal.clear();
            }
            let Some((prompt, rest)) = reply.resume(&setup) else { return Ok(Ok(())) };
            let end = match is_lost {
                false => self.change_budget(reply, telling, mailbox).await?,
                true if resumes == RESUMES_MAX => Some(result),
                true => {
                    resumes += 1;
                    self.bring_back(reply, telling, mailbox).await?
                }
            };
            if let Some(end) = end {
                return Ok(end);
            }
            run = self.resumed(run, prompt, rest, reply);
            asked_us = self.links.clock.now_us();
        }
    }

    /// Brings the model back and tells of it; what is returned ends the reply. `Err` only when an actor is
    /// gone.
    async fn bring_back(
        &mut self,
        reply: &mut ReplyCore,
        telling: &mut Telling,
        mailbox: &mut Mailbox<EngineMail>,
    ) -> Result<Option<Result<(), GenerateError>>, GenerateError> {
        Ok(match self.restore(mailbox, &mut telling.interrupt).await? {
            Ok(ModelRestored { same_adapter, adapter, .. }) => {
                if let Some(place) = telling.notices.pop() {
                    place.send(GenerationEvent::Resumed { same_adapter, adapter });
                }
                None
            }
            Err(_) if telling.interrupt.is_some() => {
                reply.cancel();
                Some(Ok(()))
            }
            Err(error) => Some(Err(error)),
        })
    }

    /// A run that goes on where the one before ended, from what the cache still holds.
    fn resumed(
        &self,
        run: PreparedReply,
        prompt: Rc<[u32]>,
        setup: RequestSetup,
        reply: &mut ReplyCore,
    ) -> PreparedReply {
        let base = self.journal.reusable_len(&prompt);
        reply.keep(base);
        let chunk_tokens = self.chunk_tokens(run.chunk_tokens);
        PreparedReply { prompt, base, setup, chunk_tokens, ..run }
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
            self.links.telemetry.change_facts(|facts| {
                facts.adapter = Some(Rc::new(adapter.clone()));
                facts.quarantined = quarantined.iter().cloned().collect();
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
                false if telling.budget.is_some() => next_paused(run, &mut telling.spare, mailbox).await,
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
                Next::Mail(Some(EngineMail::Budget(asked, progress))) if telling.can_pause() => {
                    // It takes effect between two passes; then the reply goes on.
                    telling.budget = Some((asked, progress));
                    self.pause_run().await?;
                    None
                }
                Next::Mail(mail) => refuse(mail, self.model.as_ref()),
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
