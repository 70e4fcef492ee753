//! A reply, from the request to its last event: does what its [`Session`] decides, and waits for what that
//! wants to know.

use std::rc::Rc;

use futures::FutureExt;
use futures::future::{Either, select};
use futures::pin_mut;

use fanlight_messages::error::{DeviceError, GenerateError, Gone, LoadError};
use fanlight_messages::limits::{RESUMES_MAX, RUN_EVENTS};
use fanlight_messages::protocol::engine::*;
use fanlight_messages::protocol::memory::{LearnOutput, RecallMemory};
use fanlight_messages::protocol::pager::{ModelRestored, RestoreModel};
use fanlight_messages::protocol::submitter::RunEvent;
use fanlight_messages::protocol::telemetry::{RecordSample, Reply};

use super::door::{BudgetAsked, Door, Heard, Stop};
use super::prompt::prepare;
use super::reply::ReplyCore;
use super::run::Run;
use super::session::{Effect, Input, NextRun, Session, Stage};
use super::state::{Engine, unless_gone};
use super::timing::Timing;
use crate::kit::{Asked, Permit, StreamSender};

/// The shell's side of a reply that is being generated.
struct Telling<'a> {
    request: &'a Generate,
    host: StreamSender<GenerationEvent>,
    /// Reserved places, one for each time that the reply may be resumed.
    notices: Vec<Permit<GenerationEvent>>,
    /// Reserved places for what a run tells that is paused, so that a budget need not wait for the reader.
    spare: Vec<Permit<GenerationEvent>>,
    /// The place for what the run told last.
    place: Option<Permit<GenerationEvent>>,
    run: Option<Run>,
    /// When the next run was asked for.
    asked_us: u64,
    /// Another budget, which was asked for meanwhile.
    budget: Option<BudgetAsked>,
    /// What ended the reply early.
    stop: Option<Stop>,
    timing: Timing,
}

impl Engine {
    /// Generates a reply; what stopped it is answered when the engine is idle.
    pub(super) async fn generate(
        &mut self,
        asked: Asked<Generate>,
        host: StreamSender<GenerationEvent>,
        asked_us: u64,
        door: &mut Door,
    ) -> Result<Option<Stop>, Gone> {
        let Asked { request, reply: answer } = asked;
        let mut timing = Timing::new(request.queued_us, asked_us, self.links.clock.now_us());
        let prepared = match &self.model {
            Some(model) => prepare(&request, model, &self.journal),
            None => Err(GenerateError::NoModel),
        };
        door.note(&prepared);
        timing.prepared(self.links.clock.now_us());
        // The places of the last event and of resumes are reserved first, so that they can always be told.
        let notices = (0..RESUMES_MAX).map_while(|_| host.try_reserve()).collect();
        let spare = (0..RUN_EVENTS).map_while(|_| host.try_reserve()).collect();
        let (mut prepared, last) = match (prepared, host.try_reserve()) {
            (Ok(prepared), Some(last)) => (prepared, last),
            (Err(error), _) => {
                answer.send(Err(error));
                return Ok(None);
            }
            (Ok(_), None) => return Ok(None),
        };
        let (prompt_ids, reused_tokens) = (prepared.prompt.clone(), prepared.base as u32);
        let (scope, key) = (request.memory, prepared.memory_key);
        let recalled = self.links.memory.ask(RecallMemory { scope, key }).await?;
        let (memory_tokens, memory_fault) = (recalled.tokens.len() as u32, recalled.fault);
        prepared.setup.memory = recalled.tokens;
        timing.recalled(self.links.clock.now_us(), prompt_ids.len() as u32, reused_tokens);
        let warnings = std::mem::take(&mut prepared.warnings);
        let started = GenerationStarted { prompt_ids, reused_tokens, memory_tokens, memory_fault, warnings };
        answer.send(Ok(started));
        let (place, run, budget, stop) = (None, None, None, None);
        let asked_us = timing.heard_us();
        let mut telling =
            Telling { request: &request, host, notices, spare, place, run, asked_us, budget, stop, timing };
        let reply = ReplyCore::new(&prepared, &request.stop);
        let session =
            self.reply(Session::begin(reply, prepared.run(), self.is_lost), &mut telling, door).await?;
        if let Stage::Over(result) = session.stage() {
            door.note(result);
        }
        self.record(&session, memory_tokens, &telling.timing);
        let choice_ns = self.plan_measurements(&request);
        let tokens: Rc<[u32]> = session.reply().shown_ids().into();
        let quarantined = session.quarantined().to_vec();
        let mut end = session.finish(&mut self.journal);
        if let GenerationEvent::Finished(finished) = &mut end {
            let learned = self.links.memory.ask(LearnOutput { scope, key, tokens }).await?;
            finished.memory_fault = learned.err();
            finished.quarantined = quarantined;
            finished.stats.choice_ns = choice_ns;
        }
        last.send(end);
        match (telling.budget, telling.stop) {
            // It was asked for when the reply had just ended.
            (Some(budget), None) => Ok(self.set_budget(budget, door).await?.1),
            (Some((asked, _)), stop) => {
                asked.reply.send(Err(LoadError::Busy));
                Ok(stop)
            }
            (None, stop) => Ok(stop),
        }
    }

    /// Tells telemetry what a reply was.
    fn record(&self, session: &Session, memory_tokens: u32, timing: &Timing) {
        self.links.telemetry.record(RecordSample::Reply(Reply {
            tokens: session.reply().shown_tokens(),
            memory_tokens,
            accepted_tokens: session.reply().accepted_tokens(),
            ..timing.ended(self.links.clock.now_us())
        }));
    }

    /// Runs a reply to its end.
    async fn reply(
        &mut self,
        (mut session, first): (Session, Option<Effect>),
        telling: &mut Telling<'_>,
        door: &mut Door,
    ) -> Result<Session, Gone> {
        let mut effects: Vec<Effect> = first.into_iter().collect();
        loop {
            for effect in effects {
                self.perform(effect, telling).await?;
            }
            let input = match session.stage().clone() {
                Stage::Over(_) => return Ok(session),
                Stage::Restoring => self.restore(telling, door).await?,
                Stage::Budgeting => match telling.budget.take() {
                    Some(budget) => {
                        let (has_model, stop) = self.set_budget(budget, door).await?;
                        telling.stopped(stop).unwrap_or(Input::Budgeted(has_model))
                    }
                    None => Input::Budgeted(true),
                },
                stage => self.follow(&stage, telling, door).await?,
            };
            effects = session.step(input, &mut self.journal);
            if session.reply().shown_tokens() > 0
                && let Some(phases) = telling.timing.first_token(self.links.clock.now_us())
            {
                self.links.telemetry.record(RecordSample::FirstToken(phases));
            }
        }
    }

    async fn perform(&mut self, effect: Effect, telling: &mut Telling<'_>) -> Result<(), Gone> {
        match effect {
            Effect::Show(event) => {
                if let Some(place) = telling.place.take() {
                    place.send(event);
                }
            }
            Effect::Notify(event) => {
                if let Some(place) = telling.notices.pop() {
                    place.send(event);
                }
            }
            Effect::Pause => self.pause_run().await?,
            Effect::End => self.end_run().await?,
            Effect::Lose => self.lose(),
            Effect::Quarantine(found) => self.quarantine(&found),
            Effect::Begin(next) => {
                let chunk_tokens = self.chunk_tokens(next.chunk_tokens);
                let next = NextRun { chunk_tokens, ..next };
                telling.run = Some(self.begin(&next, telling.request, Some(telling.asked_us)).await?);
            }
        }
        Ok(())
    }

    /// Waits for what a run tells, for its end, or for mail.
    async fn follow(
        &mut self,
        stage: &Stage,
        telling: &mut Telling<'_>,
        door: &mut Door,
    ) -> Result<Input, Gone> {
        let can_pause = telling.can_pause(stage);
        let event = match stage {
            // After a stop nobody is heard: at most two windows are still to come.
            Stage::Ending => Heard::Done(telling.event(stage).await),
            _ => {
                let event = telling.event(stage).boxed_local();
                door.during(can_pause, event).await
            }
        };
        Ok(match event {
            Heard::Done(Ok(Some(event))) => {
                telling.timing.heard(&event, self.links.clock.now_us());
                Input::Told(event)
            }
            Heard::Done(Ok(None)) => {
                telling.asked_us = self.links.clock.now_us();
                match telling.run.take() {
                    Some(run) => Input::RunOver(run.over().await?),
                    None => Input::Stop,
                }
            }
            Heard::Done(Err(ReaderGone)) => {
                telling.stop = Some(Stop::ReaderGone);
                Input::Stop
            }
            Heard::Stop(stop) => {
                telling.stop = Some(stop);
                Input::Stop
            }
            Heard::Budget(budget) => {
                telling.budget = Some(budget);
                Input::Budget
            }
        })
    }

    /// Brings the model back; mail that stops the wait stops the reply.
    async fn restore(&mut self, telling: &mut Telling<'_>, door: &mut Door) -> Result<Input, Gone> {
        let restored = match door.while_busy(self.links.pager.ask(RestoreModel)).await {
            Ok(restored) => unless_gone(restored?)?,
            Err(stop) => {
                telling.stop = Some(stop);
                return Ok(Input::Stop);
            }
        };
        door.note(&restored);
        telling.asked_us = self.links.clock.now_us();
        Ok(Input::Restored(match restored {
            Ok(restored) => {
                let ModelRestored { adapter, quarantined, .. } = &restored;
                self.links.telemetry.change_facts(|facts| facts.adapter = Some(Rc::new(adapter.clone())));
                self.placed(quarantined.as_ref());
                Ok(restored)
            }
            Err(LoadError::Source { file, error }) => Err(GenerateError::Source { file, error }),
            Err(error) => {
                if !matches!(error, LoadError::Device(_)) {
                    // Trying again would not help: the device that came is another one.
                    unless_gone(self.unload().await?)?.ok();
                }
                let reason = format!("it did not come back: {error}");
                Err(DeviceError::Lost { reason }.into())
            }
        }))
    }
}

/// The reader of the reply dropped its end.
struct ReaderGone;

impl Telling<'_> {
    /// A stop, if one was heard.
    fn stopped(&mut self, stop: Option<Stop>) -> Option<Input> {
        self.stop = stop;
        self.stop.is_some().then_some(Input::Stop)
    }

    /// Whether the run can be paused now: there is a place for everything that it may still tell.
    fn can_pause(&mut self, stage: &Stage) -> bool {
        let missing = RUN_EVENTS - self.spare.len();
        self.spare.extend((0..missing).map_while(|_| self.host.try_reserve()));
        *stage == Stage::Running && self.budget.is_none() && self.spare.len() == RUN_EVENTS
    }

    /// The next event of the run. Without room at the host none is taken, and without that the submitter
    /// submits no further window; one that is paused has places of its own, and one that ends shows nothing.
    async fn event(&mut self, stage: &Stage) -> Result<Option<RunEvent>, ReaderGone> {
        self.place = None;
        let Some(run) = &mut self.run else { return Ok(None) };
        if *stage == Stage::Ending {
            return Ok(run.events.next().await);
        }
        if *stage == Stage::Pausing {
            let event = run.events.next().await;
            self.place = self.spare.pop();
            return Ok(event);
        }
        let (left, host) = (self.host.closed(), &self.host);
        let event = async {
            let place = host.reserve().await.map_err(|_| ReaderGone)?;
            Ok((run.events.next().await, place))
        };
        pin_mut!(left, event);
        match select(left, event).await {
            Either::Left(_) => Err(ReaderGone),
            Either::Right((event, _)) => {
                let (event, place) = event?;
                self.place = Some(place);
                Ok(event)
            }
        }
    }
}
