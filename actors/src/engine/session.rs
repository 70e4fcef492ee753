//! The session of a reply: what happens between its first run and its last event. Pure: what was told comes
//! in, what is to be done goes out; the shell does it and waits.
//!
//! ```text
//! Restoring ──> Running ──> Ending ──> Over
//!     ^           │  └────> Pausing ─> Budgeting ──> Running
//!     └── lost ───┴────────────┘
//! ```

use std::rc::Rc;

use fanlight_messages::device::{Quarantined, RequestSetup};
use fanlight_messages::error::{DeviceError, GenerateError};
use fanlight_messages::limits::{PROMPT_BATCH_UNKNOWN, RESUMES_MAX};
use fanlight_messages::protocol::engine::GenerationEvent;
use fanlight_messages::protocol::pager::ModelRestored;
use fanlight_messages::protocol::submitter::{RunEvent, RunOver};

use super::journal::Journal;
use super::reply::ReplyCore;

/// How far a reply is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    /// A run goes on, and its events are shown.
    Running,
    /// The run ends with the pass under way; then another budget takes effect.
    Pausing,
    /// Nothing more is wanted of the run; what is in flight still lands.
    Ending,
    /// The model is brought back, as it was lost.
    Restoring,
    /// The model is placed under another budget.
    Budgeting,
    /// The last event may be told.
    Over(Result<(), GenerateError>),
}

/// What a session is told.
#[derive(Debug)]
pub(super) enum Input {
    /// By the run.
    Told(RunEvent),
    /// The run is over.
    RunOver(Result<RunOver, GenerateError>),
    /// Another budget is asked for.
    Budget,
    /// Nobody wants the reply any more.
    Stop,
    /// The model is back, or not.
    Restored(Result<ModelRestored, GenerateError>),
    /// The other budget took effect or was refused; false when there is no model any more.
    Budgeted(bool),
}

/// What is to be done.
#[derive(Debug, PartialEq)]
pub(super) enum Effect {
    /// The host sees it.
    Show(GenerationEvent),
    /// The host sees it at a place of its own: a resume.
    Notify(GenerationEvent),
    /// The run begins nothing more.
    Pause,
    /// The run submits nothing more.
    End,
    /// What is on the device is gone or not to be trusted.
    Lose,
    /// The model does without these from now on.
    Quarantine(Vec<Quarantined>),
    /// A run begins.
    Begin(NextRun),
}

/// What the next run evaluates, from what the cache still holds on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NextRun {
    pub prompt: Rc<[u32]>,
    /// Leading tokens of the prompt that the cache holds.
    pub base: usize,
    pub setup: RequestSetup,
    /// Prompt tokens per batch at most.
    pub chunk_tokens: u32,
}

/// The session of a reply.
#[derive(Debug)]
pub(super) struct Session {
    stage: Stage,
    reply: ReplyCore,
    /// As the reply was asked for.
    asked: NextRun,
    /// Another budget waits for the end of the run.
    has_budget: bool,
    resumes: u32,
    /// Tokens of the largest prompt batch so far.
    batch_tokens: u32,
    quarantined: Vec<Quarantined>,
}

impl Session {
    /// A reply that begins with the run `first`, after its model is brought back where it `is_lost`.
    pub(super) fn begin(reply: ReplyCore, first: NextRun, is_lost: bool) -> (Self, Option<Effect>) {
        let stage = if is_lost { Stage::Restoring } else { Stage::Running };
        let effect = (!is_lost).then(|| Effect::Begin(first.clone()));
        let (quarantined, batch_tokens) = (Vec::new(), PROMPT_BATCH_UNKNOWN);
        let session =
            Self { stage, reply, asked: first, has_budget: false, resumes: 0, batch_tokens, quarantined };
        (session, effect)
    }

    /// What it waits for.
    pub(super) fn stage(&self) -> &Stage {
        &self.stage
    }

    /// What is said so far.
    pub(super) fn reply(&self) -> &ReplyCore {
        &self.reply
    }

    /// What its runs found that must not be used.
    pub(super) fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }

    /// The last event.
    pub(super) fn finish(self, journal: &mut Journal) -> GenerationEvent {
        match self.stage {
            Stage::Over(result) => self.reply.finish(result, journal),
            _ => self.reply.finish(Ok(()), journal),
        }
    }

    /// Takes what happened. `journal` is what the cache holds.
    pub(super) fn step(&mut self, input: Input, journal: &mut Journal) -> Vec<Effect> {
        match input {
            Input::Told(event) => self.told(event, journal),
            Input::RunOver(over) => self.run_over(over, journal),
            Input::Budget => self.pause(),
            Input::Stop => self.stop(),
            Input::Restored(restored) => self.restored(restored, journal),
            Input::Budgeted(true) => self.go_on(journal),
            Input::Budgeted(false) => self.end(Err(GenerateError::NoModel)),
        }
    }

    fn told(&mut self, event: RunEvent, journal: &mut Journal) -> Vec<Effect> {
        if let RunEvent::PromptEvaluated { tokens, .. } = &event {
            self.batch_tokens = self.batch_tokens.max(*tokens);
        }
        let shown = self.reply.observe(event, journal).map(Effect::Show);
        let mut effects: Vec<Effect> = shown.into_iter().collect();
        if self.reply.has_stopped() && matches!(self.stage, Stage::Running | Stage::Pausing) {
            self.stage = Stage::Ending;
            effects.push(Effect::End);
        }
        effects
    }

    fn pause(&mut self) -> Vec<Effect> {
        self.has_budget = true;
        match self.stage {
            Stage::Running => {
                self.stage = Stage::Pausing;
                vec![Effect::Pause]
            }
            _ => Vec::new(),
        }
    }

    fn stop(&mut self) -> Vec<Effect> {
        self.reply.cancel();
        match self.stage {
            Stage::Running | Stage::Pausing => {
                self.stage = Stage::Ending;
                vec![Effect::End]
            }
            Stage::Restoring | Stage::Budgeting => self.end(Ok(())),
            Stage::Ending | Stage::Over(_) => Vec::new(),
        }
    }

    fn run_over(&mut self, over: Result<RunOver, GenerateError>, journal: &mut Journal) -> Vec<Effect> {
        match over {
            Ok(RunOver { quarantined }) => {
                let mut effects = Vec::new();
                if !quarantined.is_empty() {
                    self.quarantined.extend(quarantined.iter().cloned());
                    effects.push(Effect::Quarantine(quarantined));
                }
                if self.has_budget && self.reply.goes_on() {
                    self.stage = Stage::Budgeting;
                    return effects;
                }
                effects.extend(self.end(Ok(())));
                effects
            }
            Err(GenerateError::Device(DeviceError::Lost { reason })) => self.lost(reason, journal),
            // The device is as it was.
            Err(error @ GenerateError::Source { .. }) => self.end(Err(error)),
            Err(error) => {
                journal.clear();
                self.end(Err(error));
                vec![Effect::Lose]
            }
        }
    }

    fn lost(&mut self, reason: String, journal: &mut Journal) -> Vec<Effect> {
        journal.clear();
        if self.reply.is_in_prompt() {
            // A batch may have kept the device for longer than its driver waits.
            self.asked.chunk_tokens = (self.asked.chunk_tokens.min(self.batch_tokens) / 2).max(1);
            self.batch_tokens = PROMPT_BATCH_UNKNOWN;
        }
        if !self.reply.goes_on() {
            self.end(Ok(()));
        } else if self.resumes == RESUMES_MAX {
            self.end(Err(DeviceError::Lost { reason }.into()));
        } else {
            self.resumes += 1;
            self.stage = Stage::Restoring;
        }
        vec![Effect::Lose]
    }

    fn restored(
        &mut self,
        restored: Result<ModelRestored, GenerateError>,
        journal: &mut Journal,
    ) -> Vec<Effect> {
        let ModelRestored { same_adapter, adapter, .. } = match restored {
            Ok(restored) => restored,
            Err(error) => return self.end(Err(error)),
        };
        // A device that was lost before the reply began interrupted nothing.
        let resumed = GenerationEvent::Resumed { same_adapter, adapter };
        let mut effects: Vec<Effect> =
            (self.resumes > 0).then_some(Effect::Notify(resumed)).into_iter().collect();
        if self.has_budget {
            self.stage = Stage::Budgeting;
        } else {
            effects.extend(self.go_on(journal));
        }
        effects
    }

    /// Begins the run that goes on where the one before ended.
    fn go_on(&mut self, journal: &mut Journal) -> Vec<Effect> {
        self.has_budget = false;
        let Some((prompt, setup)) = self.reply.resume(&self.asked.setup) else { return self.end(Ok(())) };
        let base = journal.reusable_len(&prompt);
        self.reply.keep(base);
        self.stage = Stage::Running;
        let chunk_tokens = self.asked.chunk_tokens;
        vec![Effect::Begin(NextRun { prompt, base, setup, chunk_tokens })]
    }

    fn end(&mut self, result: Result<(), GenerateError>) -> Vec<Effect> {
        self.stage = Stage::Over(result);
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
