//! The replies of one request: each prompt as often as it was asked for, one after the other, from events of
//! the engine to events of every dialect.

use std::rc::Rc;

use fanlight_actors::engine::Generation;
use fanlight_dialects::{ApiError, Ending, PromptForm, ReplyEvent, ReplyPart, Usage};
use fanlight_messages::error::GenerateError;
use fanlight_messages::protocol::engine::*;
use fanlight_messages::reply::{self as engine, CallPart};
use fanlight_messages::sampling::{Sampling, SamplingOptions};

use super::chance::{random_id, random_u64};
use super::desk::{Counted, Desk, Waiting, tokens_of, unless_gone};

/// Letters and digits that name a call, as in the interfaces that are followed.
const CALL_ID_CHARS: usize = 24;

/// Why a reply broke off.
pub(super) enum Cut {
    /// Nobody receives it any more.
    ReaderGone,
    /// It failed.
    Failed(ApiError),
}

impl From<ApiError> for Cut {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

impl From<GenerateError> for Cut {
    fn from(error: GenerateError) -> Self {
        Self::Failed(error.into())
    }
}

/// A request that runs.
pub(super) struct Run<'a> {
    desk: &'a Desk,
    waiting: &'a Waiting,
    usage: Usage,
    has_begun: bool,
}

impl<'a> Run<'a> {
    pub fn new(desk: &'a Desk, waiting: &'a Waiting) -> Self {
        let prompt_tokens = tokens_of(&waiting.prompts);
        Self { desk, waiting, usage: Usage { prompt_tokens, ..Usage::default() }, has_begun: false }
    }

    /// What it took so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Runs all of it.
    pub async fn all(&mut self) -> Result<(), Cut> {
        let request = &self.waiting.request;
        let seed = if request.has_seed { request.sampling.seed } else { random_u64() };
        let mut index = 0;
        for (form, counted) in request.prompts.iter().zip(&self.waiting.prompts) {
            for _ in 0..request.replies {
                // Several replies differ by their seeds alone.
                let sampling =
                    SamplingOptions { seed: seed.wrapping_add(index.into()), ..request.sampling.clone() };
                let sampling = Sampling::new(sampling).map_err(GenerateError::from)?;
                if let PromptForm::Raw { text, .. } = form
                    && request.echo
                {
                    self.part(index, ReplyPart::Content(text.clone())).await?;
                }
                self.one(index, counted, Rc::new(sampling)).await?;
                index += 1;
            }
        }
        Ok(())
    }

    async fn one(&mut self, index: u32, counted: &Counted, sampling: Rc<Sampling>) -> Result<(), Cut> {
        let asked = self.waiting.request.limit.unwrap_or(u32::MAX);
        let room = self.desk.context_len.saturating_sub(counted.ids.len() as u32).max(1);
        let request = Generate {
            stop: self.waiting.request.stop.clone(),
            sampling,
            width: self.desk.width,
            ..Generate::new(counted.prompt.clone(), asked.min(room))
        };
        let events = &self.waiting.events;
        let generation = unless_gone(events, self.desk.handle.generate(request)).await??;
        if !std::mem::replace(&mut self.has_begun, true) {
            let cached_tokens = generation.started.reused_tokens;
            self.usage.cached_tokens = cached_tokens;
            self.tell(ReplyEvent::Begun { cached_tokens }).await?;
        }
        let finished = self.follow(index, generation).await?;
        self.usage.completion_tokens += finished.tokens;
        self.usage.prompt_us += finished.stats.prefill_us;
        self.usage.completion_us += finished.stats.decode_us;
        let ending = match finished.reason {
            FinishReason::Stop => match &finished.stop_text {
                Some(text) => Ending::StopText(text.clone()),
                None if finished.calls > 0 => Ending::ToolCalls,
                None => Ending::Stop,
            },
            FinishReason::Length if finished.tokens < asked => Ending::ContextFull,
            FinishReason::Length => Ending::Length,
            FinishReason::Cancelled => {
                return Err(ApiError::Internal { reason: "the reply was stopped".into() }.into());
            }
        };
        self.tell(ReplyEvent::ReplyEnded { index, ending }).await
    }

    /// Passes on what the engine tells until the reply is over.
    async fn follow(&mut self, index: u32, mut generation: Generation) -> Result<ReplyFinished, Cut> {
        let mut said = generation.started.prompt_ids.to_vec();
        loop {
            match unless_gone(&self.waiting.events, generation.events.next()).await? {
                None => return Err(ApiError::Internal { reason: "the engine has ended".into() }.into()),
                Some(GenerationEvent::Tokens { ids, parts }) => {
                    if matches!(parts[..], [engine::ReplyPart::Reasoning(_)]) {
                        self.usage.reasoning_tokens += ids.len() as u32;
                    }
                    said.extend(ids);
                    self.parts(index, parts).await?;
                }
                Some(GenerationEvent::Finished(finished)) => {
                    self.parts(index, finished.parts.clone()).await?;
                    *self.desk.held.borrow_mut() = said;
                    return Ok(finished);
                }
                Some(GenerationEvent::Failed(error)) => return Err(error.into()),
                Some(
                    GenerationEvent::Prefilled { .. }
                    | GenerationEvent::Advanced { .. }
                    | GenerationEvent::Resumed { .. },
                ) => {}
            }
        }
    }

    async fn parts(&self, index: u32, parts: Vec<engine::ReplyPart>) -> Result<(), Cut> {
        for part in parts {
            let part = match part {
                engine::ReplyPart::Reasoning(text) => ReplyPart::Reasoning(text),
                engine::ReplyPart::Content(text) => ReplyPart::Content(text),
                engine::ReplyPart::Call(CallPart::Begin { name }) => {
                    let id = random_id()[..CALL_ID_CHARS].to_owned();
                    ReplyPart::CallBegin { id, name }
                }
                engine::ReplyPart::Call(CallPart::Arguments(text)) => ReplyPart::CallArguments(text),
                engine::ReplyPart::Call(CallPart::End) => ReplyPart::CallEnd,
            };
            self.part(index, part).await?;
        }
        Ok(())
    }

    async fn part(&self, index: u32, part: ReplyPart) -> Result<(), Cut> {
        self.tell(ReplyEvent::Part { index, part }).await
    }

    /// Waits for room at a reader that is slow.
    async fn tell(&self, event: ReplyEvent) -> Result<(), Cut> {
        self.waiting.events.send(event).await.map_err(|_| Cut::ReaderGone)
    }
}
