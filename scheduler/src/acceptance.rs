//! What drafts are worth: what they promised against what came, by length of the match, and what the recent
//! ones promise.
//!
//! A draft that promises E accepted nodes, d deep, counts as a chain whose nodes are right with one chance
//! b each: E = b + b² + … + bᵈ. What is learned is how often nodes were right that b promised: the ratio of
//! the odds corrects every b, and the corrected b gives the corrected E. So what a narrow tree shows holds
//! for a wide one.
//!
//! A step that verifies a draft says how many nodes were accepted. A step that only listens (width 1) is
//! scored in its shadow: when the longest match is longer after the next token than before it, a longest
//! match went on with that token, so the first node was right; when not, it was wrong.

use fanlight_messages::control::StepRecord;
use fanlight_messages::draft::{DEPTH_MAX, ORDERS, WIDTHS, Width};

/// Widths that verify a draft: all of [`WIDTHS`] but the root alone.
pub(crate) const DRAFTED: usize = WIDTHS.len() - 1;
/// Lengths of a match, none included.
pub(crate) const MATCHES: usize = ORDERS as usize + 1;
/// What a promise keeps of its weight when a step passes: a mean over about ten steps, which a text that
/// changes moves within some twenty.
const PROMISE_DECAY: f64 = 0.9;
/// What an observation keeps of its weight when a node is looked at: a mean over about 50 nodes.
const KEPT_DECAY: f64 = 0.98;
/// And when a plain token passes: the text may have changed meanwhile.
const UNHEARD_DECAY: f64 = 0.98;
/// Nodes that the drafter's word counts as, against those looked at.
const PRIOR_WORD: f64 = 1.0;
/// And that the mean over all lengths of a match counts as, for one length.
const PRIOR_ALL: f64 = 2.0;
/// Nodes looked at that no longer count.
const LOOKED_AT_MIN: f64 = 0.01;
/// The most that a node is believed to be right: nothing is certain.
const CHANCE_MAX: f64 = 0.99;
/// Newton's steps for the chance of a chain, from that of an endless one; four leave an error below 10⁻³.
const CHANCE_STEPS: u32 = 4;
/// Steps of the last text that promises for a new one begin with: its own outweigh them at once.
const CARRIED_STEPS: f64 = 1.0;
/// Steps of a match length that no longer count.
const STEPS_MIN: f64 = 0.01;

/// Nodes that were looked at, those that were promised to be right and those that were; newer ones with more
/// weight.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Kept {
    looked_at: f64,
    promised: f64,
    right: f64,
}

impl Kept {
    fn fade(&mut self, decay: f64) {
        self.looked_at *= decay;
        self.promised *= decay;
        self.right *= decay;
    }

    fn observe(&mut self, looked_at: f64, promised: f64, right: f64) {
        self.looked_at += looked_at;
        self.promised += promised;
        self.right += right;
    }

    /// By what the odds of a promise are to be multiplied, drawn towards `prior` where little was observed.
    fn correction(self, prior: f64, weight: f64) -> f64 {
        if self.looked_at < LOOKED_AT_MIN {
            return prior;
        }
        let promised = (self.promised / self.looked_at).clamp(1.0 - CHANCE_MAX, CHANCE_MAX);
        let right = self.right + weight * corrected(promised, prior);
        let right = (right / (self.looked_at + weight)).clamp(1.0 - CHANCE_MAX, CHANCE_MAX);
        right / (1.0 - right) * (1.0 - promised) / promised
    }
}

/// A chance whose odds are multiplied.
fn corrected(chance: f64, correction: f64) -> f64 {
    let right = chance * correction;
    right / (right + 1.0 - chance)
}

/// All drafts of one match length that were judged, for telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Judged {
    /// Steps.
    pub steps: u64,
    /// Nodes that were looked at, each as far as it was promised.
    pub promised: f64,
    /// Nodes that were right.
    pub right: u64,
}

/// Drafts whose longest match has one length.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct ByMatch {
    /// Steps, and nodes promised to each width, decayed.
    steps: f64,
    promised: [f64; DRAFTED],
    kept: Kept,
    total: Judged,
}

/// The observed acceptance by match length, and the recent promises.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Acceptance {
    by_match: [ByMatch; MATCHES],
    all: Kept,
    /// The last step, when it only listened.
    listened: Option<StepRecord>,
    /// Nodes that a step of each width may be expected to accept: at the drafter's word, and corrected.
    expected: [[f64; DRAFTED]; 2],
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
    /// Another text begins. Until its own drafts are heard it may be expected to be like the last one.
    pub fn start(&mut self) {
        self.listened = None;
        let steps: f64 = self.by_match.iter().map(|of| of.steps).sum();
        let kept = (CARRIED_STEPS / steps.max(CARRIED_STEPS)).min(1.0);
        for of in &mut self.by_match {
            of.steps *= kept;
            of.promised.iter_mut().for_each(|promised| *promised *= kept);
        }
        self.expect();
    }

    /// Hears the records of a window.
    pub fn observe(&mut self, width: Width, records: &[StepRecord]) {
        for record in records {
            // A step that drafts nothing says nothing, and the next one is not its successor.
            if width == Width::Off {
                self.listened = None;
                self.fade(UNHEARD_DECAY);
                continue;
            }
            if let Some(before) = self.listened.take() {
                self.judge(&before, promise(&before, 0), 1, u32::from(went_on(&before, record)));
            }
            self.hear(record);
            match index(width) {
                Some(index) if record.match_len > 0 => {
                    let looked_at = (record.accepted + 1).min(depth(index));
                    let chance = chance(promise(record, index), depth(index));
                    self.judge(record, chance, looked_at, record.accepted);
                }
                None if record.match_len > 0 => self.listened = Some(*record),
                // Nothing was drafted.
                _ => {}
            }
        }
        self.expect();
    }

    /// What was observed loses weight.
    fn fade(&mut self, decay: f64) {
        self.all.fade(decay);
        self.by_match.iter_mut().for_each(|of| of.kept.fade(decay));
    }

    fn hear(&mut self, record: &StepRecord) {
        for of in &mut self.by_match {
            of.steps *= PROMISE_DECAY;
            of.promised.iter_mut().for_each(|promised| *promised *= PROMISE_DECAY);
        }
        let of = &mut self.by_match[match_len(record)];
        of.steps += 1.0;
        for (index, promised) in of.promised.iter_mut().enumerate() {
            *promised += promise(record, index);
        }
    }

    /// Of `looked_at` nodes, each right with `chance` as promised, `right` were.
    fn judge(&mut self, record: &StepRecord, chance: f64, looked_at: u32, right: u32) {
        self.fade(KEPT_DECAY.powi(looked_at as i32));
        let (nodes, right_nodes) = (f64::from(looked_at), f64::from(right));
        let promised = chance * nodes;
        self.all.observe(nodes, promised, right_nodes);
        let of = &mut self.by_match[match_len(record)];
        of.kept.observe(nodes, promised, right_nodes);
        of.total.steps += 1;
        of.total.promised += promised;
        of.total.right += u64::from(right);
    }

    /// Works out what to expect.
    fn expect(&mut self) {
        self.expected = Default::default();
        let steps: f64 = self.by_match.iter().map(|of| of.steps).sum();
        let all = self.all.correction(1.0, PRIOR_WORD);
        for of in self.by_match.iter().skip(1).filter(|of| of.steps > STEPS_MIN) {
            let correction = of.kept.correction(all, PRIOR_ALL);
            for (index, promised) in of.promised.iter().enumerate() {
                let each = chance(promised / of.steps, depth(index));
                let accepted = chain(corrected(each, correction), depth(index));
                self.expected[Belief::Promised as usize][index] += promised / steps;
                self.expected[Belief::Corrected as usize][index] += accepted * of.steps / steps;
            }
        }
    }

    /// Tokens that a step of this width may be expected to emit: the root's, and accepted nodes as the recent
    /// drafts have them.
    pub fn expected_tokens(&self, width: Width, belief: Belief) -> f64 {
        index(width).map_or(1.0, |index| 1.0 + self.expected[belief as usize][index])
    }

    /// What was judged so far, by match length.
    pub fn table(&self) -> [Judged; MATCHES] {
        self.by_match.map(|of| of.total)
    }
}

/// Index of a width that verifies a draft.
fn index(width: Width) -> Option<usize> {
    match width {
        Width::Off | Width::Nodes(0 | 1) => None,
        Width::Nodes(nodes) => WIDTHS.iter().filter(|w| **w <= nodes).count().checked_sub(2),
    }
}

/// How deep the tree of a width is at most.
fn depth(index: usize) -> u32 {
    (WIDTHS[index + 1] - 1).min(DEPTH_MAX)
}

/// Nodes that are accepted of a chain, each right with chance `each`.
fn chain(each: f64, depth: u32) -> f64 {
    (0..depth).fold(0.0, |accepted, _| each * (1.0 + accepted))
}

/// The chance of each node of a chain of which so many are accepted: the inverse of [`chain`].
fn chance(accepted: f64, depth: u32) -> f64 {
    let mut each = (accepted / (1.0 + accepted)).max(accepted / f64::from(depth) * 0.5);
    for _ in 0..CHANCE_STEPS {
        // Horner's scheme gives the value and the slope.
        let (value, slope) = (0..depth)
            .fold((0.0, 0.0), |(value, slope), _| (each * (1.0 + value), 1.0 + value + each * slope));
        each -= (value - accepted) / slope;
    }
    each.clamp(0.0, CHANCE_MAX)
}

fn match_len(record: &StepRecord) -> usize {
    record.match_len.min(ORDERS) as usize
}

/// Whether a longest match of `before` goes on with the token that came. Lengths end at [`ORDERS`].
fn went_on(before: &StepRecord, after: &StepRecord) -> bool {
    after.match_len > before.match_len || after.match_len >= ORDERS
}

/// Accepted nodes that a draft promises to a width.
fn promise(record: &StepRecord, index: usize) -> f64 {
    f64::from(record.expected[index]) / 64.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A draft that promises a node with `chance`.
    fn record(chance: f64, accepted: u32, match_len: u32) -> StepRecord {
        let expected = std::array::from_fn(|index| (64.0 * chain(chance, depth(index))) as u32);
        StepRecord { live: 8, emitted: accepted + 1, accepted, match_len, drafted: 32, expected }
    }

    const EIGHT: Width = Width::Nodes(8);

    #[test]
    fn a_chance_is_the_inverse_of_a_chain() {
        for depth in [1, 3, 7, 8] {
            for percent in 0..=98 {
                let each = f64::from(percent) / 100.0;
                let found = chance(chain(each, depth), depth);
                assert!((found - each).abs() < 1e-3, "{depth} deep, {each}: {found}");
            }
        }
    }

    #[test]
    fn promises_are_corrected_by_what_was_accepted() {
        let mut acceptance = Acceptance::default();
        let expected = |acceptance: &Acceptance, width| acceptance.expected_tokens(width, Belief::Corrected);
        assert_eq!(expected(&acceptance, EIGHT), 1.0, "nothing was drafted");
        acceptance.observe(Width::Nodes(1), &[record(0.8, 0, 3)]);
        let word = 1.0 + chain(0.8, 7);
        assert!((expected(&acceptance, EIGHT) - word).abs() < 0.1, "a promise is believed at first");
        // One of two nodes that were looked at is right.
        acceptance.observe(EIGHT, &[record(0.8, 1, 3); 60]);
        let corrected = expected(&acceptance, EIGHT);
        assert!((corrected - (1.0 + chain(0.5, 7))).abs() < 0.1, "{corrected}");
        assert!((acceptance.expected_tokens(EIGHT, Belief::Promised) - word).abs() < 0.1);
        // Other widths and other lengths of a match profit from it.
        acceptance.observe(EIGHT, &[record(0.8, 1, 5)]);
        assert!(expected(&acceptance, Width::Nodes(32)) < 2.2);
        assert_eq!(acceptance.table()[3].right, 60);
    }

    #[test]
    fn a_listening_step_is_judged_by_the_next_match() {
        let listened = |lengths: [u32; 2]| {
            let mut acceptance = Acceptance::default();
            for _ in 0..20 {
                acceptance.observe(Width::Nodes(1), &lengths.map(|length| record(0.8, 0, length)));
            }
            acceptance.expected_tokens(EIGHT, Belief::Corrected)
        };
        assert!(listened([2, 2]) < 1.2, "no match goes on");
        assert!(listened([8, 8]) > 6.0, "every match goes on");
        let mut acceptance = Acceptance::default();
        let plain = StepRecord { live: 1, emitted: 1, ..StepRecord::default() };
        for _ in 0..20 {
            acceptance.observe(Width::Nodes(1), &[record(0.8, 0, 2)]);
            acceptance.observe(Width::Off, &[plain]);
        }
        assert_eq!(acceptance.table(), [Judged::default(); MATCHES], "a plain step parts them");
    }
}
