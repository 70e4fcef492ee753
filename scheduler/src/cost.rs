//! What a step costs, by width and by steps per window.

use fanlight_messages::draft::{WIDTHS, Width};

/// Windows that are told apart, in steps.
pub(crate) const WINDOWS: [u32; 3] = [1, 2, 4];
/// Plain decoding, and every tree.
pub(crate) const ROWS: usize = WIDTHS.len() + 1;

/// Weight of the newest sample once there are several: quick enough to follow a laptop that throttles, slow
/// enough to pass over one window that shared the device.
const NEWEST_WEIGHT: f64 = 0.2;
/// A window is never believed to be more than this many times as slow as those before.
const SLOWER_MAX: f64 = 3.0;
/// What a node more costs, of a plain step, where nothing wider was measured: a guess on the low side, so that
/// wide steps are tried where drafts are good.
const NODE_COST: f64 = 0.01;
/// What drafting costs, of a plain step, before it was measured.
const DRAFT_COST: f64 = 0.015;
/// A width that was never measured may cost as little as the next narrower one, give or take this part of what
/// is predicted beyond that.
const GUESS_TRUST: f64 = 0.25;
/// A cost that was seen once may be this part of it: the window may have shared the device, or warmed it up.
const FIRST_SAMPLE_TRUST: f64 = 0.6;

/// Samples of one width and window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Cell {
    mean_us: f64,
    samples: u32,
}

impl Cell {
    fn observe(&mut self, step_us: f64) {
        let weight = NEWEST_WEIGHT.max(1.0 / f64::from(self.samples.saturating_add(1)));
        let sample = if self.samples == 0 { step_us } else { step_us.min(SLOWER_MAX * self.mean_us) };
        // What disturbs a window only delays it: of the first two, the quicker one is right.
        let is_quicker = self.samples == 1 && sample < self.mean_us;
        self.mean_us += if is_quicker { 1.0 } else { weight } * (sample - self.mean_us);
        self.samples = self.samples.saturating_add(1);
    }
}

/// Microseconds of a step: exponential averages where it was measured, predictions from there.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct CostCurve {
    cells: [[Cell; WINDOWS.len()]; ROWS],
}

/// Row of a width; a width that is none of [`WIDTHS`] counts as the next narrower one.
pub(crate) fn row(width: Width) -> usize {
    match width {
        Width::Off => 0,
        Width::Nodes(nodes) => WIDTHS.iter().filter(|width| **width <= nodes).count(),
    }
}

fn column(steps: u32) -> usize {
    WINDOWS.iter().filter(|window| **window <= steps).count().saturating_sub(1)
}

/// Nodes of a row.
fn nodes(row: usize) -> f64 {
    row.checked_sub(1).and_then(|at| WIDTHS.get(at)).map_or(1.0, |nodes| f64::from(*nodes))
}

impl CostCurve {
    /// A window of `steps` steps took `elapsed_us`.
    pub fn observe(&mut self, width: Width, steps: u32, elapsed_us: u64) {
        if steps > 0 {
            // A clock that did not move has measured nothing finer than a microsecond.
            let step_us = elapsed_us.max(1) as f64 / f64::from(steps);
            self.cells[row(width)][column(steps)].observe(step_us);
        }
    }

    /// Windows of this width that were measured.
    pub fn samples(&self, width: Width) -> u32 {
        self.cells[row(width)].iter().fold(0, |sum, cell| sum.saturating_add(cell.samples))
    }

    /// Windows of this width and length that were measured.
    pub fn samples_of(&self, width: Width, steps: u32) -> u32 {
        self.cells[row(width)][column(steps)].samples
    }

    /// What was measured is kept and trusted no more than a first sample.
    pub fn age(&mut self) {
        self.cells.iter_mut().flatten().for_each(|cell| cell.samples = cell.samples.min(1));
    }

    /// Predicted microseconds of a step in windows of `steps`; `None` before plain decoding was measured.
    pub fn step_us(&self, width: Width, steps: u32) -> Option<f64> {
        self.predict(row(width), column(steps))
    }

    /// The widest that was measured, in nodes.
    pub fn widest(&self) -> u32 {
        let measured = WIDTHS.iter().rev().find(|nodes| self.samples(Width::Nodes(**nodes)) > 0);
        measured.copied().unwrap_or(1)
    }

    /// The least that a step may turn out to cost, as far as is known.
    pub fn hopeful_us(&self, width: Width, steps: u32) -> Option<f64> {
        let (row, column) = (row(width), column(steps));
        let predicted = self.predict(row, column)?;
        let narrower = || (0..row).rev().find_map(|row| self.trusted(row, column));
        Some(self.trusted(row, column).unwrap_or_else(|| {
            narrower().map_or(predicted, |us| us + GUESS_TRUST * (predicted - us).max(0.0))
        }))
    }

    /// What was measured; less where it was seen but once.
    fn trusted(&self, row: usize, column: usize) -> Option<f64> {
        let samples = self.cells[row].iter().fold(0, |sum: u32, cell| sum.saturating_add(cell.samples));
        let trust = if row > 0 && samples == 1 { FIRST_SAMPLE_TRUST } else { 1.0 };
        Some(trust * self.measured(row, column)?)
    }

    fn predict(&self, row: usize, column: usize) -> Option<f64> {
        if let Some(measured) = self.measured(row, column) {
            return Some(measured);
        }
        let below = (0..row).rev().find_map(|row| Some((row, self.measured(row, column)?)));
        let above = (row + 1..ROWS).find_map(|row| Some((row, self.measured(row, column)?)));
        match (below, above) {
            (Some((narrow, low)), Some((wide, high))) => {
                let span = nodes(wide) - nodes(narrow);
                let share = if span > 0.0 { (nodes(row) - nodes(narrow)) / span } else { 1.0 };
                Some(low + (high - low).max(0.0) * share)
            }
            (Some((narrow, low)), None) => {
                let drafting = if narrow == 0 { DRAFT_COST * low } else { 0.0 };
                Some(low + drafting + (nodes(row) - nodes(narrow)) * self.node_us(narrow, column, low))
            }
            (None, above) => above.map(|(_, high)| high),
        }
    }

    /// What a node more costs beyond `row`: as much as the last nodes did, and no less than the guess.
    fn node_us(&self, row: usize, column: usize, here_us: f64) -> f64 {
        let plain_us = self.measured(0, column).unwrap_or(here_us);
        let before = (1..row).rev().find_map(|row| Some((row, self.measured(row, column)?)));
        let slope = before.map_or(0.0, |(before, us)| (here_us - us) / (nodes(row) - nodes(before)));
        slope.max(NODE_COST * plain_us)
    }

    /// From this width's own samples: of this window, or of the nearest, corrected by what plain decoding says
    /// that the difference is.
    fn measured(&self, row: usize, column: usize) -> Option<f64> {
        let cell = |row: usize, column: usize| {
            let cell = self.cells[row][column];
            (cell.samples > 0).then_some(cell.mean_us)
        };
        if let Some(own) = cell(row, column) {
            return Some(own);
        }
        let mut others: Vec<usize> = (0..WINDOWS.len()).filter(|other| *other != column).collect();
        others.sort_by_key(|other| other.abs_diff(column));
        let (other, us) = others.into_iter().find_map(|other| Some((other, cell(row, other)?)))?;
        let difference = match (cell(0, column), cell(0, other)) {
            (Some(here), Some(there)) if row > 0 => here - there,
            _ => 0.0,
        };
        Some((us + difference).max(us / 2.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(curve: &CostCurve, nodes: u32) -> f64 {
        curve.step_us(Width::Nodes(nodes), 1).unwrap()
    }

    #[test]
    fn unmeasured_widths_lie_between_their_neighbours() {
        let mut curve = CostCurve::default();
        assert_eq!(curve.step_us(Width::Off, 1), None);
        curve.observe(Width::Off, 1, 10_000);
        assert!(us(&curve, 1) > 10_000.0 && us(&curve, 32) > us(&curve, 2));
        curve.observe(Width::Nodes(8), 1, 12_000);
        curve.observe(Width::Nodes(32), 1, 60_000);
        let all = WIDTHS.map(|nodes| us(&curve, nodes));
        assert!(all.is_sorted(), "{all:?}");
        assert_eq!(us(&curve, 16), 28_000.0, "a third of the way from 8 to 32 nodes");
        assert!(curve.hopeful_us(Width::Nodes(16), 1).unwrap() < 28_000.0);
    }

    #[test]
    fn a_longer_window_saves_what_it_saves_plain_decoding() {
        let mut curve = CostCurve::default();
        curve.observe(Width::Off, 1, 11_000);
        curve.observe(Width::Off, 4, 41_000);
        curve.observe(Width::Nodes(8), 1, 21_000);
        assert_eq!(curve.step_us(Width::Nodes(8), 4), Some(20_250.0));
    }

    #[test]
    fn one_slow_window_is_passed_over_and_a_slow_device_is_followed() {
        let mut curve = CostCurve::default();
        curve.observe(Width::Off, 1, 10_000);
        curve.observe(Width::Off, 1, 1_000_000);
        assert_eq!(curve.step_us(Width::Off, 1), Some(20_000.0));
        for _ in 0..30 {
            curve.observe(Width::Off, 1, 100_000);
        }
        assert!((95_000.0..105_000.0).contains(&curve.step_us(Width::Off, 1).unwrap()));
    }
}
