//! What drafts are worth: what they promised against what was accepted, and what the recent ones promise.

use std::collections::VecDeque;

use fanlight_messages::control::StepRecord;
use fanlight_messages::draft::{ORDERS, WIDTHS, Width};

/// Widths that verify a draft: all of [`WIDTHS`] but the root alone.
const DRAFTED: usize = WIDTHS.len() - 1;
/// Records that a prediction is made from; older ones have no weight left.
const RECENT: usize = 24;
/// What a record keeps of its weight when a step passes.
const RECENT_DECAY: f64 = 0.85;
/// What an observation keeps of its weight when a step passes: what is long past is forgotten, so that a text
/// that has changed gets another chance.
const RATIO_DECAY: f64 = 0.96;
/// Promised nodes that a coarser ratio counts as, against those observed.
const PRIOR: f64 = 2.0;
/// And that the word of the drafter counts as: one bad step does not refute it.
const PRIOR_WORD: f64 = 5.0;
/// A ratio above it says that too little was observed.
const RATIO_MAX: f64 = 4.0;
/// Records are of no use after so many steps: what is drafted now is another matter.
const STALE_STEPS: u64 = 24;

/// Nodes promised and nodes accepted, newer ones with more weight.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Ratio {
    promised: f64,
    accepted: f64,
    at: u64,
}

impl Ratio {
    fn decayed(self, now: u64) -> (f64, f64) {
        let decay = power(RATIO_DECAY, now.saturating_sub(self.at));
        (self.promised * decay, self.accepted * decay)
    }

    fn observe(&mut self, now: u64, promised: f64, accepted: f64) {
        let (old_promised, old_accepted) = self.decayed(now);
        *self = Self { promised: old_promised + promised, accepted: old_accepted + accepted, at: now };
    }

    /// Accepted per promised node, drawn towards `prior` where little was observed.
    fn value(self, now: u64, prior: f64, weight: f64) -> f64 {
        let (promised, accepted) = self.decayed(now);
        ((accepted + weight * prior) / (promised + weight)).min(RATIO_MAX)
    }
}

fn power(base: f64, exponent: u64) -> f64 {
    base.powi(i32::try_from(exponent).unwrap_or(i32::MAX))
}

/// Index of a width that verifies a draft.
fn index(width: Width) -> Option<usize> {
    match width {
        Width::Off | Width::Nodes(0 | 1) => None,
        Width::Nodes(nodes) => Some(WIDTHS.iter().filter(|w| **w <= nodes).count().checked_sub(2)?),
    }
}

/// The observed acceptance by match length and width, and the recent drafts.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Acceptance {
    /// Steps so far.
    now: u64,
    recent: VecDeque<(u64, StepRecord)>,
    all: Ratio,
    by_width: [Ratio; DRAFTED],
    by_match: [[Ratio; DRAFTED]; ORDERS as usize + 1],
}

/// Whether promises are taken at their word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Belief {
    /// As the drafter says.
    Promised,
    /// As far as they were kept so far.
    Corrected,
}

impl Acceptance {
    /// Another text begins: what was drafted for the last one says nothing, how far promises hold does.
    pub fn start(&mut self) {
        self.recent.clear();
    }

    /// Hears the records of a window.
    pub fn observe(&mut self, width: Width, records: &[StepRecord]) {
        for record in records {
            self.now += 1;
            // Without a draft there is nothing to learn.
            if record.drafted == 0 {
                continue;
            }
            if let Some(index) = index(width) {
                let promised = promise(record, index);
                let accepted = f64::from(record.accepted);
                self.all.observe(self.now, promised, accepted);
                self.by_width[index].observe(self.now, promised, accepted);
                self.by_match[match_len(record)][index].observe(self.now, promised, accepted);
            }
            if self.recent.len() == RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back((self.now, *record));
        }
    }

    /// Tokens that a step of this width may be expected to emit: the root's, and accepted nodes as the recent
    /// drafts have them.
    pub fn expected_tokens(&self, width: Width, belief: Belief) -> f64 {
        let Some(index) = index(width) else { return 1.0 };
        let (mut sum, mut weights) = (0.0, 0.0);
        for (at, record) in &self.recent {
            let age = self.now - at;
            if age <= STALE_STEPS {
                let weight = power(RECENT_DECAY, age);
                let factor = match belief {
                    Belief::Promised => 1.0,
                    Belief::Corrected => self.factor(match_len(record), index),
                };
                sum += weight * factor * promise(record, index);
                weights += weight;
            }
        }
        let accepted = if weights > 0.0 { sum / weights } else { 0.0 };
        1.0 + accepted.min(f64::from(width.tokens_max().saturating_sub(1)))
    }

    /// Accepted per promised node for one match length and width, drawn towards that of the width and of all.
    fn factor(&self, match_len: usize, index: usize) -> f64 {
        let all = self.all.value(self.now, 1.0, PRIOR_WORD);
        let of_width = self.by_width[index].value(self.now, all, PRIOR);
        self.by_match[match_len][index].value(self.now, of_width, PRIOR)
    }
}

fn match_len(record: &StepRecord) -> usize {
    record.match_len.min(ORDERS) as usize
}

/// Accepted nodes that a draft promises to a width.
fn promise(record: &StepRecord, index: usize) -> f64 {
    f64::from(record.expected[index]) / 64.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(promised: u32, accepted: u32) -> StepRecord {
        StepRecord {
            live: 8,
            emitted: accepted + 1,
            accepted,
            match_len: 3,
            drafted: 32,
            expected: [64 * promised; 5],
        }
    }

    #[test]
    fn promises_are_corrected_by_what_was_accepted() {
        let mut acceptance = Acceptance::default();
        let eight = Width::Nodes(8);
        assert_eq!(acceptance.expected_tokens(eight, Belief::Corrected), 1.0, "nothing was drafted");
        acceptance.observe(Width::Nodes(1), &[record(4, 0)]);
        assert_eq!(
            acceptance.expected_tokens(eight, Belief::Corrected),
            5.0,
            "a promise is believed at first"
        );
        for _ in 0..20 {
            acceptance.observe(eight, &[record(4, 1)]);
        }
        let corrected = acceptance.expected_tokens(eight, Belief::Corrected);
        assert!((corrected - 2.0).abs() < 0.15, "{corrected}");
        assert_eq!(acceptance.expected_tokens(eight, Belief::Promised), 5.0);
        // Other widths profit from it.
        assert!(acceptance.expected_tokens(Width::Nodes(32), Belief::Corrected) < 2.5);
        acceptance.observe(Width::Off, &[StepRecord { live: 1, emitted: 1, ..Default::default() }; 30]);
        assert_eq!(acceptance.expected_tokens(eight, Belief::Promised), 1.0, "long ago");
    }
}
