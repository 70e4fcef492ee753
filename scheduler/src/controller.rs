//! Chooses width and length of the next window.
//!
//! Decoding is plain, or it speculates with the width that is expected to emit most tokens per microsecond.
//! While it is plain, windows of width 1 now and then *listen*: a draft is made and scored, and none
//! verified. Single steps of another width, *probes*, find out what a width costs and whether promises
//! hold, and single plain windows whether plain decoding still costs what it did. All losses are paid from
//! a purse.

use fanlight_messages::control::WINDOW_STEPS_MAX;
use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::error::CostRecordError;
use fanlight_messages::limits::{FRAME_US, SUBMISSION_US_MAX};
use fanlight_messages::protocol::controller::{ConfigurePlan, ControllerSnapshot, ObserveWindow, PlanChosen};

use crate::acceptance::{Acceptance, Belief};
use crate::cost::{CostCurve, WINDOWS};
use crate::history::History;
use crate::purse::Purse;
use crate::record;

/// The smallest window within this of the fastest is taken: a plan is heard sooner, a stop is too. It is to
/// be within a tenth; what is measured may be off by a little.
const WINDOW_SLACK: f64 = 1.08;
/// Speculation must promise this much over plain decoding.
const MARGIN: f64 = 1.02;
/// A width must promise this much over the one in use: estimates move together, but not quite.
const CHANGE_MARGIN: f64 = 1.05;
/// An unmeasured width must promise this much over the one in use.
const PROBE_MARGIN: f64 = 1.03;
/// Nodes of the widest tree that is tried on a device where none was measured; then twice the widest that
/// was. Eight nodes gain most of what a chain can.
const FIRST_TREE: u32 = 8;
/// Where drafts promise this much of what would pay, listening goes on without a pause.
const PROMISING: f64 = 0.97;
/// Steps of a listening window: the shadow of all but the last is scored.
const LISTEN_STEPS: u32 = 4;
/// Tokens between the beginnings of two listening windows, and of two probes of trust, at least.
const LISTEN_TOKENS: u64 = 16;
const TRUST_TOKENS: u64 = 32;
/// Tokens between two of them at most, where they cost much.
const SPACING_MAX: u64 = 512;
/// Part of the time that listening may cost, and probes of trust.
const SHARE: f64 = 0.004;
/// Windows until an answer to a probe is no longer waited for: those in flight, the probe, and one dropped.
const PROBE_WINDOWS: u32 = 4;
/// Plain windows of a length that are measured before others are preferred.
const PLAIN_SAMPLES: u32 = 2;
/// Windows of speculation after which plain decoding is measured again.
const PLAIN_WINDOWS: u32 = 96;

/// The state of the controller.
#[derive(Debug, Clone, PartialEq)]
pub struct Controller {
    policy: WidthPolicy,
    /// Steps of a window where they are not chosen.
    window_steps: Option<u32>,
    window_us_max: f64,
    costs: CostCurve,
    acceptance: Acceptance,
    purse: Purse,
    /// Tokens emitted so far, and how many when the request began.
    now: u64,
    started: u64,
    /// Width between probes: plain, or one that verifies drafts.
    base: Width,
    /// When to listen again, and when to try a promise again that was not kept.
    listen_due: u64,
    trust_due: u64,
    /// A probe that was planned, and how many windows have completed since.
    probe: Option<(Width, u32)>,
    /// Windows since plain decoding was measured.
    plain_age: u32,
    history: History,
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            policy: WidthPolicy::default(),
            window_steps: None,
            window_us_max: SUBMISSION_US_MAX as f64,
            costs: CostCurve::default(),
            acceptance: Acceptance::default(),
            purse: Purse::default(),
            now: 0,
            started: 0,
            base: Width::Off,
            listen_due: 0,
            trust_due: 0,
            probe: None,
            plain_age: 0,
            history: History::default(),
        }
    }
}

impl Controller {
    /// A request begins. What was learned of the device stays, to be looked at again.
    pub fn configure(&mut self, configure: &ConfigurePlan) -> PlanChosen {
        let budget = match configure.frame_budget_us {
            _ if configure.streams => f64::INFINITY,
            budget => budget.unwrap_or(SUBMISSION_US_MAX).min(SUBMISSION_US_MAX) as f64,
        };
        self.policy = configure.width;
        self.window_steps = configure.window_steps;
        self.window_us_max = budget;
        if matches!(self.policy, WidthPolicy::Auto { .. }) {
            self.history.begin(&self.costs);
            self.costs.age();
        }
        self.acceptance.start();
        self.base = Width::Off;
        self.started = self.now;
        self.listen_due = self.now;
        self.trust_due = self.now;
        self.probe = None;
        self.plan()
    }

    /// Another model is on the device.
    pub fn forget(&mut self) {
        let Self { policy, window_steps, window_us_max, .. } = *self;
        *self = Self { policy, window_steps, window_us_max, ..Self::default() };
    }

    /// A window that would measure what is not known yet and may matter; `None` when there is none.
    pub fn measurement(&self) -> Option<PlanChosen> {
        self.costs.unmeasured().map(|(width, steps)| PlanChosen { width, steps, ..PlanChosen::default() })
    }

    /// The costs as a record for `key`, which names adapter, model and build; `None` before any was measured.
    pub fn record(&self, key: &str) -> Option<Vec<u8>> {
        let costs = self.costs.values();
        costs.iter().any(|us| *us > 0.0).then(|| record::write(key, costs))
    }

    /// Takes costs that [`record`](Self::record) wrote, to be looked at again like all that is old.
    ///
    /// # Errors
    /// When they are of another format, damaged, or of another device, model or build; nothing changes then.
    pub fn recall(&mut self, key: &str, record: &[u8]) -> Result<(), CostRecordError> {
        self.costs.recall(record::read(key, record)?);
        Ok(())
    }

    /// What it knows and did.
    pub fn snapshot(&self) -> ControllerSnapshot {
        self.history.snapshot(&self.costs, &self.acceptance)
    }

    /// A window has completed; the plan of the next one to be submitted.
    pub fn observe(&mut self, window: &ObserveWindow) -> PlanChosen {
        let tokens: u32 = window.records.iter().map(|record| record.emitted).sum();
        self.history.window(self.now, window.width);
        self.now += u64::from(tokens);
        if let Some(elapsed_us) = window.elapsed_us {
            self.costs.observe(window.width, window.steps, elapsed_us);
        }
        self.acceptance.observe(window.width, &window.records);
        self.book(window, f64::from(tokens));
        self.plain_age = if window.width == Width::Off { 0 } else { self.plain_age.saturating_add(1) };
        self.probe = self
            .probe
            .filter(|(width, _)| *width != window.width)
            .map(|(width, windows)| (width, windows + 1))
            .filter(|(_, windows)| *windows < PROBE_WINDOWS);
        self.plan()
    }

    /// Books what a window lost or gained, at average cost: one window that shared the device is not
    /// speculation's fault.
    fn book(&mut self, window: &ObserveWindow, tokens: f64) {
        let (Some(plain_us), WidthPolicy::Auto { .. }) = (self.plain_us(), self.policy) else { return };
        let step_us = match window.width {
            Width::Off => plain_us,
            width => self.costs.step_us(width, window.steps).unwrap_or(plain_us),
        };
        let window_us = f64::from(window.steps) * step_us;
        self.purse.book(tokens, window_us / plain_us);
        if self.probe.is_some_and(|(width, _)| width == window.width) {
            self.history.probe(window_us - tokens * plain_us);
        }
    }

    fn plan(&mut self) -> PlanChosen {
        let (width, steps) = match self.policy {
            WidthPolicy::Fixed(Width::Off) => self.plain_window(),
            // One step where nothing is known.
            WidthPolicy::Fixed(width) if self.costs.samples(width) == 0 => (width, 1),
            WidthPolicy::Fixed(width) => (width, self.steps(width)),
            WidthPolicy::Auto { .. } => self.choose(),
        };
        PlanChosen {
            width,
            steps,
            gap_us: self.gap_us(width, steps),
            // The cast saturates.
            cap_us: self.window_us_max as u64,
            tokens_per_s: self.tokens_per_s(width, steps),
        }
    }

    /// Tokens per second that windows of this plan are expected to emit while the device works.
    fn tokens_per_s(&self, width: Width, steps: u32) -> u32 {
        let tokens = self.acceptance.expected_tokens(width, Belief::Corrected);
        // The cast saturates; a cost that is not known, or none, gives 0.
        let step_us = self.costs.step_us(width, steps).filter(|us| *us > 0.0);
        step_us.map_or(0, |us| (1e6 * tokens / us) as u32)
    }

    /// How long the device is left alone after a window, so that of each frame windows take their budget.
    fn gap_us(&self, width: Width, steps: u32) -> u64 {
        let rest = (FRAME_US as f64 / self.window_us_max - 1.0).max(0.0);
        let window_us = self.costs.step_us(width, steps).map_or(0.0, |us| us * f64::from(steps));
        // The cast saturates.
        ((window_us * rest) as u64).min(FRAME_US)
    }

    /// Windows within the cap, and what a step costs in each. A window of one step is always among them: the
    /// submitter splits it between layers.
    fn windows(&self, width: Width) -> impl Iterator<Item = (u32, f64)> {
        let most = self.window_steps.unwrap_or(WINDOW_STEPS_MAX);
        WINDOWS.into_iter().filter(move |steps| *steps <= most).filter_map(move |steps| {
            let step_us = self.costs.step_us(width, steps)?;
            (steps == 1 || step_us * f64::from(steps) <= self.window_us_max).then_some((steps, step_us))
        })
    }

    /// The window as it is asked for; else the smallest that is nearly as fast as the fastest. And what a
    /// step costs in it.
    fn window(&self, width: Width) -> Option<(u32, f64)> {
        if self.window_steps.is_some() {
            return self.windows(width).last();
        }
        let fastest = self.windows(width).map(|(_, us)| us).min_by(f64::total_cmp)?;
        self.windows(width).find(|(_, us)| *us <= WINDOW_SLACK * fastest)
    }

    fn steps(&self, width: Width) -> u32 {
        self.window(width).map_or(1, |(steps, _)| steps)
    }

    fn plain_us(&self) -> Option<f64> {
        self.window(Width::Off).map(|(_, us)| us)
    }

    /// Widths that verify a draft and whose single step stays within the cap.
    fn trees(&self) -> impl Iterator<Item = Width> {
        let fits = |width: &Width| self.costs.step_us(*width, 1).is_some_and(|us| us <= self.window_us_max);
        self.policy.widths().filter(|width| width.rows() > 1).filter(fits)
    }

    /// Tokens that a step emits in the time of a plain one.
    fn gain(&self, width: Width, belief: Belief, plain_us: f64) -> f64 {
        let tokens = self.acceptance.expected_tokens(width, belief);
        self.window(width).map_or(0.0, |(_, us)| tokens * plain_us / us)
    }

    /// The gain of a width if it costs as little as it may.
    fn hopeful_gain(&self, width: Width, tokens: f64, plain_us: f64) -> f64 {
        self.costs.hopeful_us(width, 1).map_or(0.0, |us| tokens * plain_us / us)
    }

    /// What a step of this width loses, in plain steps, when it emits `tokens`.
    fn loss(&self, width: Width, tokens: f64, plain_us: f64) -> f64 {
        self.costs.step_us(width, 1).map_or(0.0, |us| us / plain_us - tokens)
    }

    fn choose(&mut self) -> (Width, u32) {
        let Some(plain_us) = self.plain_us() else { return (Width::Off, 1) };
        // Where even drafts that are always right do not pay, nothing is drafted.
        let can_pay =
            |width: Width| self.hopeful_gain(width, f64::from(width.tokens_max()), plain_us) > MARGIN;
        if !self.trees().any(can_pay) {
            self.base = Width::Off;
            return self.plain_window();
        }
        self.base = self.best(plain_us);
        let probe = if self.probe.is_none() { self.next_probe(plain_us) } else { None };
        if let Some((width, _)) = probe {
            self.probe = Some((width, 0));
        }
        probe.unwrap_or_else(|| match self.base {
            Width::Off => self.plain_window(),
            width => (width, self.steps(width)),
        })
    }

    /// A plain window; of a length that is not known yet where there is one, as that costs nothing. At
    /// first it is short, so that what is heard is heeded soon.
    fn plain_window(&self) -> (Width, u32) {
        let unknown = |steps: u32| self.costs.plain_samples(steps) < PLAIN_SAMPLES;
        let steps = if self.window_steps.is_some() {
            self.steps(Width::Off)
        } else if unknown(1) || self.now < self.started + LISTEN_TOKENS {
            1
        } else {
            let longest = self.windows(Width::Off).last().filter(|(steps, _)| unknown(*steps));
            longest.map_or_else(|| self.steps(Width::Off), |(steps, _)| steps)
        };
        (Width::Off, steps)
    }

    /// The width between probes: the one in use while none is clearly better.
    fn best(&self, plain_us: f64) -> Width {
        if !self.purse.affords(0.0) {
            return Width::Off;
        }
        let gain = |width| self.gain(width, Belief::Corrected, plain_us);
        let measured = self.trees().filter(|width| self.costs.samples(*width) > 0);
        let best = measured.map(|width| (width, gain(width))).max_by(|a, b| a.1.total_cmp(&b.1));
        let (kept, change) =
            if self.base == Width::Off { (1.0, MARGIN) } else { (gain(self.base), CHANGE_MARGIN) };
        match best {
            Some((width, gain)) if gain > (change * kept).max(MARGIN) => width,
            _ if kept >= 1.0 => self.base,
            _ => Width::Off,
        }
    }

    /// What is worth finding out with the next window.
    fn next_probe(&mut self, plain_us: f64) -> Option<(Width, u32)> {
        if let Some(width) = self.cost_probe(plain_us) {
            return Some((width, 1));
        }
        if self.base != Width::Off {
            return (self.plain_age >= PLAIN_WINDOWS).then(|| (Width::Off, self.steps(Width::Off)));
        }
        let trust = self.trust_probe(plain_us);
        trust.map(|width| (width, 1)).or_else(|| self.listening(plain_us))
    }

    /// A width whose cost is not known, or no longer, and that may be better than the one in use.
    fn cost_probe(&self, plain_us: f64) -> Option<Width> {
        let tokens = |width| self.acceptance.expected_tokens(width, Belief::Corrected);
        let used = self.gain(self.base, Belief::Corrected, plain_us).max(1.0);
        let widest = FIRST_TREE.max(2 * self.costs.widest());
        let unknown = self.trees().filter(|width| *width != self.base && self.costs.is_doubtful(*width));
        let unknown = unknown.filter(|width| width.rows() <= widest);
        let hope = |width| self.hopeful_gain(width, tokens(width), plain_us);
        let (width, gain) = unknown.map(|width| (width, hope(width))).max_by(|a, b| a.1.total_cmp(&b.1))?;
        let pays =
            gain > PROBE_MARGIN * used && self.purse.affords(self.loss(width, tokens(width), plain_us));
        pays.then_some(width)
    }

    /// The narrowest tree, when promises would pay that were not kept before: what the shadow says may be
    /// wrong.
    fn trust_probe(&mut self, plain_us: f64) -> Option<Width> {
        let promised = |width| self.gain(width, Belief::Promised, plain_us) > MARGIN;
        if self.now < self.trust_due || !self.trees().any(promised) {
            return None;
        }
        let width = self.trees().next()?;
        let loss = self.loss(width, 1.0, plain_us);
        self.purse.affords(loss).then(|| self.trust_due = self.now + spacing(TRUST_TOKENS, loss))?;
        Some(width)
    }

    /// A listening window, when it is time for one.
    fn listening(&mut self, plain_us: f64) -> Option<(Width, u32)> {
        let tokens = |width| self.acceptance.expected_tokens(width, Belief::Corrected);
        let promises = |width| self.hopeful_gain(width, tokens(width), plain_us) > PROMISING * MARGIN;
        let (width, wanted) =
            (Width::Nodes(1), LISTEN_STEPS.min(self.window_steps.unwrap_or(WINDOW_STEPS_MAX)));
        let step_us = self.costs.step_us(width, wanted)?;
        let loss = f64::from(wanted) * (step_us / plain_us - 1.0);
        let is_due = self.now >= self.listen_due || self.trees().any(promises);
        if !is_due || !self.purse.affords(loss) {
            return None;
        }
        self.listen_due = self.now + spacing(LISTEN_TOKENS, loss);
        let steps = self.windows(width).map(|(steps, _)| steps).filter(|steps| *steps <= wanted).max()?;
        Some((width, steps))
    }
}

/// Tokens from one probe that may lose `loss` plain steps to the next.
fn spacing(tokens_min: u64, loss: f64) -> u64 {
    // The cast saturates.
    tokens_min.max(((loss.max(0.0) / SHARE) as u64).min(SPACING_MAX))
}
