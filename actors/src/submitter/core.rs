//! Decides what a run submits next. Pure: the shell submits and awaits.

use std::collections::VecDeque;
use std::ops::Range;

use fanlight_messages::control::{EndReason, WINDOWS_IN_FLIGHT};
use fanlight_messages::device::WindowReport;
use fanlight_messages::protocol::submitter::{BeginDecode, RunEvent};

/// What to submit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submission {
    /// Prompt tokens `range` (of [`BeginDecode::tokens`]) at positions `base..`.
    Prompt {
        /// First position.
        base: u32,
        /// Which tokens.
        range: Range<usize>,
        /// True for the last batch.
        choose: bool,
    },
    /// A window of steps.
    Window {
        /// Its steps.
        steps: u32,
    },
}

/// A submission that has completed, as told upwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// For the engine.
    pub event: RunEvent,
    /// Whether the reply has ended in it or before it.
    pub has_ended: bool,
}

/// The state of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunCore {
    base: u32,
    prompt_len: usize,
    submitted_len: usize,
    chunk_tokens: usize,
    /// Prompt tokens of the next batch, and whether it is awaited before another one is submitted.
    slice: (usize, bool),
    /// Tokens that windows may still emit, as far as is known. Every step emits one at least, so steps beyond
    /// this number would only spin.
    tokens_left: u32,
    /// Steps of the windows in flight.
    steps_in_flight: u32,
    in_flight: VecDeque<Submission>,
    in_flight_max: usize,
    stopped: bool,
    /// Nothing more is to be begun.
    finishing: bool,
}

impl RunCore {
    /// The run that `begin` asks for.
    pub fn new(begin: &BeginDecode) -> Self {
        let prompt_end = u64::from(begin.base) + begin.tokens.len() as u64;
        // The prompt's last batch chooses one token; then every step commits a position and chooses one more.
        let positions = u64::from(begin.setup.context_len).saturating_sub(prompt_end);
        let tokens = positions.min(u64::from(begin.setup.token_limit.saturating_sub(1)));
        Self {
            base: begin.base,
            prompt_len: begin.tokens.len(),
            submitted_len: 0,
            chunk_tokens: begin.chunk_tokens.max(1) as usize,
            slice: (usize::MAX, false),
            tokens_left: u32::try_from(tokens).unwrap_or(u32::MAX),
            steps_in_flight: 0,
            in_flight: VecDeque::new(),
            in_flight_max: begin.windows_in_flight.clamp(1, WINDOWS_IN_FLIGHT) as usize,
            stopped: false,
            finishing: false,
        }
    }

    /// True when something may be submitted now.
    pub fn wants_submission(&self) -> bool {
        let in_flight_max = if self.is_decoding() || !self.slice.1 { self.in_flight_max } else { 1 };
        !self.is_ending() && self.has_more() && self.in_flight.len() < in_flight_max
    }

    /// The most tokens that a prompt batch may have.
    pub fn chunk_tokens(&self) -> usize {
        self.chunk_tokens
    }

    /// From here on prompt batches have at most so many tokens; one that `is_alone` is awaited before another
    /// one is submitted.
    pub fn slice(&mut self, tokens: usize, is_alone: bool) {
        self.slice = (tokens.max(1), is_alone);
    }

    /// True when the next submission is a window.
    pub fn is_decoding(&self) -> bool {
        self.submitted_len == self.prompt_len
    }

    fn steps_left(&self) -> u32 {
        self.tokens_left.saturating_sub(self.steps_in_flight)
    }

    fn has_more(&self) -> bool {
        self.submitted_len < self.prompt_len || self.steps_left() > 0
    }

    /// The next submission; a window has at most `plan_steps` steps. It counts as in flight.
    pub fn next_submission(&mut self, plan_steps: u32) -> Option<Submission> {
        if !self.wants_submission() {
            return None;
        }
        let submission = if self.submitted_len < self.prompt_len {
            let start = self.submitted_len;
            let end = (start + self.chunk_tokens.min(self.slice.0)).min(self.prompt_len);
            self.submitted_len = end;
            let base = self.base + start as u32;
            Submission::Prompt { base, range: start..end, choose: end == self.prompt_len }
        } else {
            let steps = plan_steps.clamp(1, self.steps_left());
            self.steps_in_flight += steps;
            Submission::Window { steps }
        };
        self.in_flight.push_back(submission.clone());
        Some(submission)
    }

    /// The oldest submission in flight has completed. `None` when none was.
    pub fn complete(&mut self, report: WindowReport, elapsed_us: u64) -> Option<Done> {
        let submission = self.in_flight.pop_front()?;
        let has_ended = EndReason::from_word(report.control.end).is_some();
        self.stopped |= has_ended;
        Some(match submission {
            Submission::Prompt { range, .. } => {
                let tokens = range.len() as u32;
                Done { event: RunEvent::PromptEvaluated { tokens, report, elapsed_us }, has_ended }
            }
            Submission::Window { steps } => {
                self.steps_in_flight -= steps;
                self.tokens_left = self.tokens_left.saturating_sub(report.tokens.len() as u32);
                Done { event: RunEvent::WindowCompleted { steps, report, elapsed_us }, has_ended }
            }
        })
    }

    /// Nothing more is to be submitted.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Nothing more is to be begun; what is under way goes on to its end.
    pub fn finish(&mut self) {
        self.finishing = true;
    }

    /// True when not even what is under way is wanted.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// True when nothing more is to be begun.
    pub fn is_ending(&self) -> bool {
        self.stopped || self.finishing
    }

    /// True when nothing is in flight and nothing will be.
    pub fn is_over(&self) -> bool {
        self.in_flight.is_empty() && (self.is_ending() || !self.has_more())
    }
}

#[cfg(test)]
mod tests {
    use fanlight_messages::control::ControlBlock;
    use fanlight_messages::device::RequestSetup;
    use fanlight_messages::draft::WidthPolicy;
    use fanlight_messages::protocol::submitter::RunId;
    use proptest::prelude::*;

    use super::*;

    fn begin(base: u32, tokens: usize, chunk_tokens: u32, context_len: u32, token_limit: u32) -> BeginDecode {
        let setup = RequestSetup { context_len, token_limit, ..RequestSetup::default() };
        let tokens = vec![1; tokens].into();
        BeginDecode {
            asked_us: Some(0),
            run: RunId(1),
            setup,
            base,
            tokens,
            chunk_tokens,
            windows_in_flight: 2,
            width: WidthPolicy::default(),
        }
    }

    fn report(end: u32) -> WindowReport {
        emitting(0, end)
    }

    fn emitting(tokens: u32, end: u32) -> WindowReport {
        let control = ControlBlock { end, ..ControlBlock::default() };
        let tokens = vec![1; tokens as usize];
        WindowReport { control, hashes: tokens.clone(), tokens, steps: vec![], dispatches: 1 }
    }

    #[test]
    fn two_are_in_flight_and_the_first_window_follows_the_last_batch_at_once() {
        let mut core = RunCore::new(&begin(5, 7, 4, 256, 100));
        let first = core.next_submission(4);
        assert_eq!(first, Some(Submission::Prompt { base: 5, range: 0..4, choose: false }));
        let second = core.next_submission(4);
        assert_eq!(second, Some(Submission::Prompt { base: 9, range: 4..7, choose: true }));
        assert_eq!(core.next_submission(4), None);
        core.complete(report(0), 1);
        assert_eq!(core.next_submission(4), Some(Submission::Window { steps: 4 }));
    }

    #[test]
    fn a_stop_or_an_end_lets_what_is_in_flight_land() {
        for by_end in [false, true] {
            let mut core = RunCore::new(&begin(0, 1, 4, 256, 100));
            core.next_submission(1);
            core.next_submission(1);
            if by_end {
                core.complete(report(1), 1);
            } else {
                core.stop();
                core.complete(report(0), 1);
            }
            assert!(!core.wants_submission() && !core.is_over());
            core.complete(report(0), 1);
            assert!(core.is_over());
        }
    }

    proptest! {
        #[test]
        fn everything_is_submitted_once_and_no_step_is_wasted(
            base in 0..40u32, tokens in 1..60usize, chunk in 0..20u32,
            context in 1..120u32, limit in 1..60u32, plan in 0..6u32, extra in 0..9u32,
        ) {
            let begin = begin(base, tokens, chunk, context, limit);
            let mut core = RunCore::new(&begin);
            let free = context.saturating_sub(base + tokens as u32).min(limit - 1);
            let (mut prompt, mut emitted) = (0, 0);
            let mut in_flight = VecDeque::new();
            while !core.is_over() {
                while let Some(submission) = core.next_submission(plan) {
                    match &submission {
                        Submission::Prompt { base: at, range, choose } => {
                            prop_assert_eq!((*at, range.start), (base + prompt as u32, prompt));
                            prompt = range.end;
                            prop_assert_eq!(*choose, prompt == tokens);
                        }
                        Submission::Window { steps } => {
                            prop_assert!(prompt == tokens && *steps >= 1 && *steps <= plan.max(1));
                        }
                    }
                    in_flight.push_back(submission);
                    prop_assert!(in_flight.len() <= 2);
                    let steps: u32 = in_flight.iter().map(|s| match s {
                        Submission::Window { steps } => *steps,
                        Submission::Prompt { .. } => 0,
                    }).sum();
                    prop_assert!(emitted + steps <= free, "a step that cannot emit");
                }
                // Every step emits a token, and drafts may add to them, up to the limit.
                let (done, chooses) = match in_flight.pop_front() {
                    Some(Submission::Window { steps }) => ((steps + extra).min(free - emitted), true),
                    Some(Submission::Prompt { choose, .. }) => (0, choose),
                    None => (0, false),
                };
                emitted += done;
                let end = if chooses && emitted == free { 2 } else { 0 };
                prop_assert!(core.complete(emitting(done, end), 1).is_some());
            }
            prop_assert_eq!((prompt, emitted), (tokens, free));
            prop_assert!(in_flight.is_empty() || extra > 0, "only a draft ends a reply early");
        }
    }
}
