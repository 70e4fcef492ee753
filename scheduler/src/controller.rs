//! Chooses width and length of the next window.
//!
//! Decoding is plain, or it *listens* (width 1: a draft is made and none verified, so that its promise is heard
//! for the price of drafting), or it speculates with the width that is expected to emit most tokens per
//! microsecond. Single windows of another width, *probes*, find out what is not known: what wider steps cost,
//! whether promises hold, whether plain decoding still costs what it did. All losses are paid from a purse.

use fanlight_messages::control::WINDOW_STEPS_MAX;
use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::limits::SUBMISSION_US_MAX;
use fanlight_messages::protocol::controller::{ConfigurePlan, ObserveWindow, PlanChosen};

use crate::acceptance::{Acceptance, Belief};
use crate::cost::{CostCurve, WINDOWS};
use crate::purse::Purse;

/// The smallest window within this of the fastest is taken: a plan is heard sooner, a stop is too.
const WINDOW_SLACK: f64 = 1.10;
/// Speculation must promise this much over plain decoding, and a width over the one in use.
const MARGIN: f64 = 1.02;
/// An unmeasured width must promise this much over the one in use.
const PROBE_MARGIN: f64 = 1.03;
/// Nodes of the widest tree that is tried on a device where none was measured; then twice the widest that was.
/// Eight nodes gain most of what a chain can.
const FIRST_TREE: u32 = 8;
/// Samples after which a width's cost counts as known.
const KNOWN_SAMPLES: u32 = 2;
/// Tokens that are listened to when a reply begins and when speculation stops paying.
const LISTEN_TOKENS: u64 = 12;
/// Tokens between probes of one kind: at first, and after failures. The second keeps the way back to
/// speculation short.
const SPACING: [u64; 2] = [12, 28];
/// Tokens between probes whose cost is felt.
const SPACING_MAX: u64 = 512;
/// Part of the time that probes of one kind may cost.
const PROBE_SHARE: f64 = 0.003;
/// Windows until an answer to a probe is no longer waited for: those in flight, the probe, and one dropped.
const PROBE_WINDOWS: u32 = 4;
/// Windows of speculation after which plain decoding is measured again.
const PLAIN_WINDOWS: u32 = 96;

/// When to probe again: after failures less often, less often too where a probe is dear.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Schedule {
    due: u64,
    spacing: u64,
}

impl Schedule {
    fn succeeded(&mut self, now: u64) {
        self.spacing = SPACING[0];
        self.due = now;
    }

    /// A probe goes out that costs `loss` plain steps if it finds nothing.
    fn sent(&mut self, now: u64, loss: f64) {
        let dear = (loss.max(0.0) / PROBE_SHARE) as u64;
        self.due = now + self.spacing.max(SPACING[0]).max(dear.min(SPACING_MAX));
        self.spacing = (2 * self.spacing).clamp(SPACING[0], SPACING[1]);
    }
}

/// The state of the controller.
#[derive(Debug, Clone, PartialEq)]
pub struct Controller {
    policy: WidthPolicy,
    steps_max: u32,
    window_us_max: f64,
    costs: CostCurve,
    acceptance: Acceptance,
    purse: Purse,
    /// Tokens emitted so far.
    now: u64,
    /// Width between probes.
    base: Width,
    listen_until: u64,
    listening: Schedule,
    trusting: Schedule,
    /// A probe that was planned, and how many windows have completed since.
    probe: Option<(Width, u32)>,
    /// Windows since plain decoding was measured.
    plain_age: u32,
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            policy: WidthPolicy::default(),
            steps_max: 1,
            window_us_max: SUBMISSION_US_MAX as f64,
            costs: CostCurve::default(),
            acceptance: Acceptance::default(),
            purse: Purse::default(),
            now: 0,
            base: Width::Off,
            listen_until: LISTEN_TOKENS,
            listening: Schedule::default(),
            trusting: Schedule::default(),
            probe: None,
            plain_age: 0,
        }
    }
}

impl Controller {
    /// A request begins. What was learned of the device stays, to be looked at again.
    pub fn configure(&mut self, configure: &ConfigurePlan) -> PlanChosen {
        let budget = configure.frame_budget_us.unwrap_or(SUBMISSION_US_MAX).min(SUBMISSION_US_MAX);
        self.policy = configure.width;
        self.steps_max = configure.steps_max.clamp(1, WINDOW_STEPS_MAX);
        self.window_us_max = budget as f64;
        self.costs.age();
        self.acceptance.start();
        self.purse = Purse::default();
        self.base = Width::Off;
        self.listen_until = self.now + LISTEN_TOKENS;
        self.listening.succeeded(self.now);
        self.trusting.succeeded(self.now);
        self.probe = None;
        self.plan()
    }

    /// Another model is on the device.
    pub fn forget(&mut self) {
        let Self { policy, steps_max, window_us_max, .. } = *self;
        *self = Self { policy, steps_max, window_us_max, ..Self::default() };
    }

    /// A window has completed; the plan of the next one to be submitted.
    pub fn observe(&mut self, window: &ObserveWindow) -> PlanChosen {
        let tokens: u32 = window.records.iter().map(|record| record.emitted).sum();
        self.now += u64::from(tokens);
        self.costs.observe(window.width, window.steps, window.elapsed_us);
        self.acceptance.observe(window.width, &window.records);
        let plain = self.plain_us();
        // Losses are booked at average cost: one window that shared the device is not speculation's fault.
        let spent_us = match self.costs.step_us(window.width, window.steps) {
            Some(step_us) if window.width != Width::Off => step_us * f64::from(window.steps),
            _ => plain.unwrap_or(0.0) * f64::from(tokens),
        };
        if let Some(plain_us) = plain {
            self.purse.book(f64::from(tokens), spent_us / plain_us);
        }
        self.plain_age = if window.width == Width::Off { 0 } else { self.plain_age.saturating_add(1) };
        self.probe = self
            .probe
            .filter(|(width, _)| *width != window.width)
            .map(|(width, windows)| (width, windows + 1))
            .filter(|(_, windows)| *windows < PROBE_WINDOWS);
        self.plan()
    }

    fn plan(&mut self) -> PlanChosen {
        match self.policy {
            WidthPolicy::Fixed(width) => PlanChosen { width, steps: self.longest(width) },
            WidthPolicy::Auto { .. } => self.choose(),
        }
    }

    /// The longest window that stays within the cap; one step on a device that is not known.
    fn longest(&self, width: Width) -> u32 {
        if self.costs.samples(width) == 0 {
            1
        } else {
            self.windows(width).map(|(steps, _)| steps).max().unwrap_or(1)
        }
    }

    /// Windows within the cap, and what a step costs in each. A window of one step is always among them: a
    /// smaller submission would need the layers split.
    fn windows(&self, width: Width) -> impl Iterator<Item = (u32, f64)> {
        WINDOWS.into_iter().filter(|steps| *steps <= self.steps_max).filter_map(move |steps| {
            let step_us = self.costs.step_us(width, steps)?;
            (steps == 1 || step_us * f64::from(steps) <= self.window_us_max).then_some((steps, step_us))
        })
    }

    /// The smallest window that is nearly as fast as the fastest, and what a step costs in it.
    fn window(&self, width: Width) -> Option<(u32, f64)> {
        let fastest = self.windows(width).map(|(_, us)| us).min_by(f64::total_cmp)?;
        self.windows(width).find(|(_, us)| *us <= WINDOW_SLACK * fastest)
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

    fn choose(&mut self) -> PlanChosen {
        let Some(plain_us) = self.plain_us() else { return PlanChosen { width: Width::Off, steps: 1 } };
        // Where even drafts that are always right do not pay, nothing is drafted.
        let can_pay =
            |width| self.hopeful_gain(width, f64::from(Width::tokens_max(width)), plain_us) > MARGIN;
        if !self.trees().any(can_pay) {
            self.base = Width::Off;
            return self.plain_window();
        }
        self.rebase(plain_us);
        if self.probe.is_none()
            && let Some(plan) = self.next_probe(plain_us)
        {
            self.probe = (plan.width != self.base).then_some((plan.width, 0));
            return plan;
        }
        match self.base {
            Width::Off => self.plain_window(),
            width => PlanChosen { width, steps: self.window(width).map_or(1, |(steps, _)| steps) },
        }
    }

    /// A plain window; of a length that is not known yet where there is one, as that costs nothing.
    fn plain_window(&self) -> PlanChosen {
        let unknown =
            self.windows(Width::Off).find(|(steps, _)| self.costs.samples_of(Width::Off, *steps) < 2);
        let (steps, _) = unknown.or_else(|| self.window(Width::Off)).unwrap_or((1, 0.0));
        PlanChosen { width: Width::Off, steps }
    }

    /// Decides the width between probes.
    fn rebase(&mut self, plain_us: f64) {
        let gain = |width| self.gain(width, Belief::Corrected, plain_us);
        let measured = self.trees().filter(|width| self.costs.samples(*width) > 0);
        let best = measured.map(|width| (width, gain(width))).max_by(|a, b| a.1.total_cmp(&b.1));
        let was_tree = self.base.rows() > 1;
        let now = self.now;
        let kept = was_tree.then(|| gain(self.base)).filter(|kept| *kept > 1.0);
        let best = best.filter(|(_, gain)| *gain > MARGIN * kept.unwrap_or(1.0));
        self.base = match best {
            _ if !self.purse.affords(0.0) => Width::Off,
            Some((width, _)) => width,
            None if kept.is_some() => self.base,
            None if was_tree => {
                self.listen_until = now + LISTEN_TOKENS;
                self.listening.succeeded(now);
                Width::Nodes(1)
            }
            None if now < self.listen_until => Width::Nodes(1),
            None => Width::Off,
        };
        if self.base.rows() > 1 {
            self.trusting.succeeded(now);
        }
    }

    /// What is worth finding out with the next window.
    fn next_probe(&mut self, plain_us: f64) -> Option<PlanChosen> {
        if self.base.rows() > 1 && self.plain_age >= PLAIN_WINDOWS {
            let (steps, _) = self.window(Width::Off)?;
            return Some(PlanChosen { width: Width::Off, steps });
        }
        if let Some(width) = self.cost_probe(plain_us).or_else(|| self.trust_probe(plain_us)) {
            return Some(PlanChosen { width, steps: 1 });
        }
        let (steps, us) = self.window(Width::Nodes(1))?;
        if self.base == Width::Off && self.now >= self.listening.due {
            self.listening.sent(self.now, f64::from(steps) * (us / plain_us - 1.0));
            return Some(PlanChosen { width: Width::Nodes(1), steps });
        }
        None
    }

    /// A width whose cost is not known and that may be better than the one in use.
    fn cost_probe(&self, plain_us: f64) -> Option<Width> {
        let tokens = |width| self.acceptance.expected_tokens(width, Belief::Corrected);
        let used = self.gain(self.base, Belief::Corrected, plain_us).max(1.0);
        let widest = FIRST_TREE.max(2 * self.costs.widest());
        let unknown = self.trees().filter(|width| self.costs.samples(*width) < KNOWN_SAMPLES);
        let unknown = unknown.filter(|width| width.rows() <= widest);
        let hope = |width| self.hopeful_gain(width, tokens(width), plain_us);
        let (width, gain) = unknown.map(|width| (width, hope(width))).max_by(|a, b| a.1.total_cmp(&b.1))?;
        let pays =
            gain > PROBE_MARGIN * used && self.purse.affords(self.loss(width, tokens(width), plain_us));
        pays.then_some(width)
    }

    /// The narrowest tree, when promises would pay that were not kept before.
    fn trust_probe(&mut self, plain_us: f64) -> Option<Width> {
        let promised = |width| self.gain(width, Belief::Promised, plain_us) > MARGIN;
        if self.base.rows() > 1 || self.now < self.trusting.due || !self.trees().any(promised) {
            return None;
        }
        let width = self.trees().next()?;
        let loss = self.loss(width, 1.0, plain_us);
        self.purse.affords(loss).then(|| self.trusting.sent(self.now, loss))?;
        Some(width)
    }
}
