//! Where the time of a reply went, from the request to the first token and to the end. Pure: time comes in as
//! a number.

use fanlight_messages::protocol::submitter::RunEvent;
use fanlight_messages::protocol::telemetry::{Phases, Reply};

/// The phases of a reply so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timing {
    phases: Phases,
    /// When the engine took it up, and where the phase under way began.
    heard_us: u64,
    since_us: u64,
    /// The device has begun.
    has_begun: bool,
    /// The first token was shown.
    is_shown: bool,
}

impl Timing {
    /// A request that the host asked at `asked_us`, after it had waited `queued_us`, and that the engine took
    /// up now.
    pub fn new(queued_us: u64, asked_us: u64, now_us: u64) -> Self {
        let queue_us = queued_us.saturating_add(now_us.saturating_sub(asked_us));
        let phases = Phases { queue_us, ..Phases::default() };
        Self { phases, heard_us: now_us, since_us: now_us, has_begun: false, is_shown: false }
    }

    /// When the engine took it up.
    pub fn heard_us(&self) -> u64 {
        self.heard_us
    }

    fn lap(&mut self, now_us: u64) -> u64 {
        let lap_us = now_us.saturating_sub(self.since_us);
        self.since_us = self.since_us.max(now_us);
        lap_us
    }

    /// The prompt is made into tokens.
    pub fn prepared(&mut self, now_us: u64) {
        self.phases.tokenise_us = self.lap(now_us);
    }

    /// The device is there, and so is what memory has; of `prompt_tokens` the cache held `reused_tokens`.
    pub fn recalled(&mut self, now_us: u64, prompt_tokens: u32, reused_tokens: u32) {
        self.phases.recall_us = self.lap(now_us);
        (self.phases.prompt_tokens, self.phases.reused_tokens) = (prompt_tokens, reused_tokens);
    }

    /// The submitter told something.
    pub fn heard(&mut self, event: &RunEvent, now_us: u64) {
        if self.is_shown {
            return;
        }
        if let RunEvent::PromptEvaluated { elapsed_us, .. } | RunEvent::WindowCompleted { elapsed_us, .. } =
            event
        {
            if !self.has_begun {
                self.has_begun = true;
                self.phases.compile_us = self.lap(now_us.saturating_sub(*elapsed_us));
            }
            self.phases.prefill_us += self.lap(now_us);
        }
    }

    /// A token is shown; the phases when it is the first.
    pub fn first_token(&mut self, now_us: u64) -> Option<Phases> {
        if self.is_shown {
            return None;
        }
        self.is_shown = true;
        self.phases.show_us = self.lap(now_us);
        self.phases.shown_at_us = now_us;
        Some(self.phases)
    }

    /// The reply is over; its tokens are left open.
    pub fn ended(&self, now_us: u64) -> Reply {
        Reply {
            first_token_us: self.is_shown.then(|| self.phases.total_us()),
            elapsed_us: self.phases.queue_us.saturating_add(now_us.saturating_sub(self.heard_us)),
            ..Reply::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use fanlight_messages::control::ControlBlock;
    use fanlight_messages::device::WindowReport;

    use super::*;

    fn evaluated(elapsed_us: u64) -> RunEvent {
        let control = ControlBlock::default();
        let report = WindowReport { control, tokens: vec![], hashes: vec![], steps: vec![], dispatches: 1 };
        RunEvent::PromptEvaluated { tokens: 4, report, elapsed_us }
    }

    #[test]
    fn phases_add_up_to_the_time_until_the_first_token() {
        let mut timing = Timing::new(7, 100, 103);
        timing.prepared(110);
        timing.recalled(130, 12, 4);
        timing.heard(&RunEvent::PassAdvanced { done: 1, total: 9 }, 150);
        // The device began 40 before the first batch was complete.
        timing.heard(&evaluated(40), 200);
        timing.heard(&evaluated(20), 221);
        let phases = timing.first_token(223).unwrap();
        let wanted = Phases {
            shown_at_us: 223,
            queue_us: 10,
            tokenise_us: 7,
            recall_us: 20,
            compile_us: 30,
            prefill_us: 61,
            show_us: 2,
            prompt_tokens: 12,
            reused_tokens: 4,
        };
        assert_eq!((phases, phases.total_us()), (wanted, 7 + 223 - 100));
        timing.heard(&evaluated(9), 400);
        assert_eq!(timing.first_token(400), None, "there is one first token");
        let ended = timing.ended(500);
        assert_eq!((ended.first_token_us, ended.elapsed_us), (Some(130), 10 + 500 - 103));
        assert_eq!(Timing::new(0, 5, 5).ended(9).first_token_us, None);
    }
}
