//! One reply, from its first prompt batch to its end. Pure: run events in, generation events out.

use std::rc::Rc;

use fanlight_messages::control::EndReason;
use fanlight_messages::device::{RequestSetup, WindowReport};
use fanlight_messages::error::{DeviceError, GenerateError};
use fanlight_messages::protocol::engine::{FinishReason, GenerationEvent, ReplyFinished, ReplyStats};
use fanlight_messages::protocol::submitter::RunEvent;
use fanlight_messages::reply::{CallPart, ReplyPart};

use super::journal::Journal;
use super::prompt::PreparedReply;
use super::text::ReplyText;

/// The state of a reply.
#[derive(Debug)]
pub(super) struct ReplyCore {
    text: ReplyText,
    /// What is evaluated before the reply goes on: the prompt, and after a lost device what was said so far.
    prompt: Rc<[u32]>,
    /// Tokens of the prompt that was asked for.
    asked_len: usize,
    /// Prompt tokens in the cache.
    evaluated: usize,
    /// Tokens that are chosen and not yet in the cache; with two windows in flight never more than a few.
    pending: Vec<u32>,
    hashes_logits: bool,
    hash: u32,
    /// Ids of the reply so far.
    shown: Vec<u32>,
    end: Option<EndReason>,
    is_cancelled: bool,
    stats: ReplyStats,
}

impl ReplyCore {
    /// A reply that ends before any of the `stop` texts.
    pub(super) fn new(prepared: &PreparedReply, stop: &[String]) -> Self {
        let PreparedReply { tokenizer, prompt, base, setup, continues, calls, .. } = prepared.clone();
        Self {
            text: ReplyText::new(tokenizer, continues, stop).with_calls(calls),
            asked_len: prompt.len(),
            prompt,
            evaluated: base,
            pending: Vec::new(),
            hashes_logits: setup.hash_logits,
            hash: 0,
            shown: Vec::new(),
            end: None,
            is_cancelled: false,
            stats: ReplyStats::default(),
        }
    }

    /// So many tokens of what is to be evaluated are in the cache.
    pub(super) fn keep(&mut self, tokens: usize) {
        self.evaluated = tokens;
    }

    /// True when a stop text has occurred: nothing that follows belongs to the reply.
    pub(super) fn has_stopped(&self) -> bool {
        self.text.has_stopped()
    }

    /// The host wants no more of it. What still arrives is journalled and not shown.
    pub(super) fn cancel(&mut self) {
        self.is_cancelled = true;
    }

    /// True once the host cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    /// Takes what the submitter tells; returns what the host is to see.
    pub(super) fn observe(&mut self, event: RunEvent, journal: &mut Journal) -> Option<GenerationEvent> {
        match event {
            RunEvent::PassAdvanced { done, total } => {
                (!self.is_cancelled).then_some(GenerationEvent::Advanced { done, total })
            }
            RunEvent::PromptEvaluated { tokens, report, elapsed_us } => {
                let end = (self.evaluated + tokens as usize).min(self.prompt.len());
                journal.commit(&self.prompt[self.evaluated..end]);
                self.evaluated = end;
                self.stats.prefill_tokens += tokens;
                self.stats.prefill_us += elapsed_us;
                let (done, total) = (end.min(self.asked_len) as u32, self.asked_len as u32);
                self.take(&report, journal);
                let shown = self.show(&report);
                // The first token comes with the last batch.
                let is_news = !self.is_cancelled && self.shown.is_empty();
                let progress = || is_news.then_some(GenerationEvent::Prefilled { done, total });
                shown.or_else(progress)
            }
            RunEvent::WindowCompleted { steps, report, elapsed_us } => {
                self.stats.windows += 1;
                self.stats.submitted_steps += steps;
                self.stats.decode_us += elapsed_us;
                self.stats.decode_tokens += report.tokens.len() as u32;
                self.stats.decode_dispatches += u64::from(report.dispatches);
                self.take(&report, journal);
                self.show(&report)
            }
        }
    }

    /// Journals what the report committed, and notes the end.
    fn take(&mut self, report: &WindowReport, journal: &mut Journal) {
        self.pending.extend_from_slice(&report.tokens);
        if self.evaluated == self.prompt.len() {
            let committed = (report.control.committed as usize).saturating_sub(journal.len());
            let landed: Vec<u32> = self.pending.drain(..committed.min(self.pending.len())).collect();
            journal.commit(&landed);
        }
        for step in &report.steps {
            self.stats.steps += 1;
            self.stats.drafting.add(step);
        }
        self.end = self.end.or(EndReason::from_word(report.control.end));
        if self.end == Some(EndReason::Poisoned) {
            journal.clear();
        }
    }

    /// The text of new tokens, unless the host has cancelled.
    fn show(&mut self, report: &WindowReport) -> Option<GenerationEvent> {
        if self.is_cancelled || self.has_stopped() || self.end == Some(EndReason::Poisoned) {
            return None;
        }
        let (mut ids, mut parts) = (Vec::new(), Vec::new());
        for (id, hash) in report.tokens.iter().zip(&report.hashes) {
            self.text.push(*id, &mut parts);
            ids.push(*id);
            self.hash = *hash;
            if self.has_stopped() {
                break;
            }
        }
        if self.end == Some(EndReason::EndToken) && !self.has_stopped() {
            // The row that chose the end token counts too.
            self.hash = report.control.hash;
        }
        self.shown.extend(&ids);
        (!ids.is_empty()).then_some(GenerationEvent::Tokens { ids, parts })
    }

    /// What is shown so far.
    pub(super) fn shown_ids(&self) -> &[u32] {
        &self.shown
    }

    /// Tokens shown so far.
    pub(super) fn shown_tokens(&self) -> u32 {
        self.shown.len() as u32
    }

    /// Drafted tokens that were accepted so far.
    pub(super) fn accepted_tokens(&self) -> u32 {
        self.stats.drafting.accepted
    }

    /// The run ended before the reply did. What the next one has to evaluate and what it starts with, so that
    /// the reply goes on as if nothing had happened; `None` when nothing is missing.
    pub(super) fn resume(&mut self, setup: &RequestSetup) -> Option<(Rc<[u32]>, RequestSetup)> {
        if self.is_cancelled || self.has_stopped() || self.end.is_some() {
            return None;
        }
        let missing = &self.shown[self.prompt.len().saturating_sub(self.asked_len)..];
        self.prompt = self.prompt.iter().chain(missing).copied().collect();
        self.evaluated = 0;
        self.pending.clear();
        let token_limit = setup.token_limit.saturating_sub(self.shown_tokens());
        let setup = RequestSetup { token_limit, hash: self.hash, ..setup.clone() };
        Some((self.prompt.clone(), setup))
    }

    /// The run is over with `result`: the last event.
    pub(super) fn finish(self, result: Result<(), GenerateError>, journal: &mut Journal) -> GenerationEvent {
        if let Err(error) = result {
            journal.clear();
            return GenerationEvent::Failed(error);
        }
        let reason = match self.end {
            Some(EndReason::Poisoned) => {
                return GenerationEvent::Failed(GenerateError::Poisoned { tokens: self.shown_tokens() });
            }
            _ if self.has_stopped() => FinishReason::Stop,
            _ if self.is_cancelled => FinishReason::Cancelled,
            Some(EndReason::EndToken) => FinishReason::Stop,
            Some(EndReason::TokenLimit | EndReason::ContextFull) => FinishReason::Length,
            None => {
                let (phase, reason) = ("a run".into(), "it ended without a reason".into());
                return GenerationEvent::Failed(DeviceError::Refused { phase, reason }.into());
            }
        };
        let tokens = self.shown_tokens();
        let (calls, stop_text) = (self.text.calls(), self.text.stop_text().map(str::to_owned));
        let parts = self.text.finish();
        // What was held back may have made another one whole.
        let held = parts.iter().filter(|part| **part == ReplyPart::Call(CallPart::End)).count();
        let calls = calls + held as u32;
        GenerationEvent::Finished(ReplyFinished {
            reason,
            tokens,
            calls,
            stop_text,
            parts,
            logits_hash: self.hashes_logits.then_some(self.hash),
            stats: self.stats,
            memory_fault: None,
            quarantined: Vec::new(),
        })
    }
}
