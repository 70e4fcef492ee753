//! What the controller did, for telemetry.

use std::collections::VecDeque;

use fanlight_messages::control::WINDOW_STEPS_MAX;
use fanlight_messages::draft::{WIDTHS, Width};
use fanlight_messages::limits::WIDTH_CHANGES;
use fanlight_messages::protocol::controller::{ControllerSnapshot, CostsSnapshot, MatchSnapshot};

use crate::acceptance::Acceptance;
use crate::cost::{COSTS, CostCurve, WINDOWS};

const _: () = assert!(WINDOWS.len() == 3 && WINDOWS[2] == WINDOW_STEPS_MAX);

/// Counts over all windows, and the last changes of width.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct History {
    measured: CostsSnapshot,
    windows_by_width: [u64; WIDTHS.len() + 1],
    widths: VecDeque<(u64, Width)>,
    probes: u64,
    probe_loss_us: f64,
}

impl History {
    /// A request finds these costs.
    pub fn begin(&mut self, costs: &CostCurve) {
        self.measured = costs_snapshot(costs.values());
    }

    /// A window of this width began at `token`.
    pub fn window(&mut self, token: u64, width: Width) {
        let row = match width {
            Width::Off => 0,
            Width::Nodes(nodes) => WIDTHS.iter().filter(|width| **width <= nodes).count(),
        };
        self.windows_by_width[row] += 1;
        if self.widths.back().is_none_or(|(_, last)| *last != width) {
            if self.widths.len() == WIDTH_CHANGES {
                self.widths.pop_front();
            }
            self.widths.push_back((token, width));
        }
    }

    /// A probe lost so much against plain decoding.
    pub fn probe(&mut self, loss_us: f64) {
        self.probes += 1;
        self.probe_loss_us += loss_us;
    }

    pub fn snapshot(&self, costs: &CostCurve, acceptance: &Acceptance) -> ControllerSnapshot {
        ControllerSnapshot {
            measured: self.measured,
            online: costs_snapshot(costs.values()),
            windows_by_width: self.windows_by_width,
            widths: self.widths.iter().copied().collect(),
            acceptance: acceptance.table().map(|judged| MatchSnapshot {
                steps: judged.steps,
                promised_milli: (1000.0 * judged.promised) as u64,
                right: judged.right,
            }),
            probes: self.probes,
            probe_loss_us: self.probe_loss_us as i64,
        }
    }
}

fn costs_snapshot(values: [f64; COSTS]) -> CostsSnapshot {
    CostsSnapshot {
        plain_us: std::array::from_fn(|at| values[at] as u64),
        tree_us: std::array::from_fn(|at| values[WINDOWS.len() + at] as u64),
    }
}
