//! A device with two windows in flight, and a reply decoded on it.

use std::collections::VecDeque;

use fanlight_messages::draft::{WIDTHS, Width};
use fanlight_messages::protocol::controller::{ConfigurePlan, ObserveWindow, PlanChosen};
use fanlight_scheduler::Controller;

use crate::text::{Random, Written};

/// A plain step, microseconds.
pub const PLAIN_US: f64 = 10_000.0;
/// What drafting costs, of a plain step.
const DRAFTING: f64 = 0.015;
/// Times vary by this part either way, evenly.
const NOISE: f64 = 0.08;
/// One window in two hundred takes twice as long: the device did something else.
const DISTURBED: f64 = 0.005;

/// What steps cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve {
    pub name: &'static str,
    /// Plain steps that a step of 1, 2, 4, 8, 16 and 32 nodes takes, drafting apart.
    pub widths: [f64; 6],
    /// Plain steps that a window takes besides its steps.
    pub overhead: f64,
}

impl Curve {
    /// Expected microseconds of a window, disturbances included.
    pub fn window_us(&self, plan: PlanChosen) -> f64 {
        let step = match plan.width {
            Width::Off => 1.0,
            Width::Nodes(nodes) => {
                DRAFTING + self.widths[WIDTHS.iter().position(|width| *width == nodes).unwrap()]
            }
        };
        (1.0 + DISTURBED) * PLAIN_US * (f64::from(plan.steps) * step + self.overhead)
    }

    /// The smallest window within a tenth of the fastest.
    pub fn best_window(&self, width: Width) -> u32 {
        let step_us =
            |steps| self.window_us(PlanChosen { width, steps, ..PlanChosen::default() }) / f64::from(steps);
        [1, 2, 4].into_iter().find(|steps| step_us(*steps) <= 1.1 * step_us(4)).unwrap()
    }
}

/// A completed window.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub plan: PlanChosen,
    pub us: f64,
    /// Token at its beginning.
    pub token: u64,
}

/// A reply that was decoded.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub tokens: u64,
    pub us: f64,
    pub windows: Vec<Window>,
}

impl Reply {
    pub fn us_per_token(&self) -> f64 {
        self.us / self.tokens as f64
    }
}

/// Decodes at least `tokens` tokens. Two windows are in flight, so what is learned from a window is heeded by
/// the one after the next, or with `late` by the one after that.
pub fn decode(
    controller: &mut Controller,
    configure: &ConfigurePlan,
    curve: &Curve,
    text: &Written,
    (tokens, late, seed): (u64, bool, u64),
) -> Reply {
    let mut random = Random(seed);
    let mut plans = VecDeque::from([controller.configure(configure); 2]);
    if late {
        plans.push_back(plans[0]);
    }
    let mut reply = Reply::default();
    while reply.tokens < tokens {
        let plan = plans.pop_front().unwrap();
        let token = reply.tokens;
        let (width, steps) = (plan.width, plan.steps);
        let mut records = Vec::new();
        while records.len() < steps as usize && reply.tokens < tokens {
            let record = text.step(reply.tokens, width);
            reply.tokens += u64::from(record.emitted);
            records.push(record);
        }
        let noise = 1.0 + NOISE * (2.0 * random.unit() - 1.0);
        let disturbed = if random.unit() < DISTURBED { 2.0 } else { 1.0 };
        let us = curve.window_us(plan) / (1.0 + DISTURBED) * noise * disturbed;
        reply.us += us;
        reply.windows.push(Window { plan, us, token });
        let elapsed_us = Some(us as u64);
        plans.push_back(controller.observe(&ObserveWindow { width, steps, elapsed_us, records }));
    }
    reply
}
