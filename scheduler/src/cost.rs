//! What a step costs, by width, and what a window costs beside its steps.

use fanlight_messages::control::WINDOW_STEPS_MAX;
use fanlight_messages::draft::{WIDTHS, Width};

/// Windows that are told apart, in steps.
pub(crate) const WINDOWS: [u32; 3] = [1, 2, 4];
const _: () = assert!(WINDOWS[2] == WINDOW_STEPS_MAX);

/// Weight of the newest sample: quick enough to follow a laptop that throttles, slow enough to pass over one
/// window that shared the device.
const NEWEST_WEIGHT: f64 = 0.15;
/// A window is never believed to be more than this many times as slow as those before.
const SLOWER_MAX: f64 = 1.5;
/// Samples after which a cost counts as known.
pub(crate) const KNOWN_SAMPLES: u32 = 3;
/// A cost that was seen once, or twice, may be this part of it: the window may have shared the device, or
/// warmed it up.
const FEW_SAMPLES_TRUST: [f64; KNOWN_SAMPLES as usize - 1] = [0.6, 0.9];
/// A cost that was not measured for so many windows may be off by so much: the average was moved by a
/// disturbance, or the device has changed.
const STALE_WINDOWS: u64 = 64;
const STALE_TRUST: f64 = 0.9;
/// What a node more costs, of a plain step, where nothing wider was measured: a guess on the low side, so
/// that wide steps are tried where drafts are good.
const NODE_COST: f64 = 0.01;
/// The most of a window that is believed not to be steps.
const OVERHEAD_MAX: f64 = 0.5;

/// Costs that are measured.
pub(crate) const COSTS: usize = WINDOWS.len() + WIDTHS.len();
/// A step of twice the nodes that takes this many times as long leaves nothing for wider ones to gain.
const LINEAR: f64 = 1.8;

/// An exponential average.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Average {
    us: f64,
    samples: u32,
    /// Window of the newest sample.
    at: u64,
}

impl Average {
    fn observe(&mut self, us: f64, at: u64) {
        let us = if self.samples == 0 { us } else { us.min(SLOWER_MAX * self.us) };
        // What disturbs a window only delays it: of the first two, the quicker one is right.
        let is_quicker = self.samples == 1 && us < self.us;
        let mean_weight = 1.0 / (f64::from(self.samples) + 1.0);
        let weight = if is_quicker { 1.0 } else { mean_weight.max(NEWEST_WEIGHT) };
        self.us += weight * (us - self.us);
        self.samples = self.samples.saturating_add(1);
        self.at = at;
    }

    fn known(self) -> Option<f64> {
        (self.samples > 0).then_some(self.us)
    }
}

/// Microseconds: averages where it was measured, predictions from there.
///
/// A window of W steps takes `overhead + W · step`. Plain windows of different lengths tell the overhead,
/// which is the same for trees: so a tree needs to be measured in one length only.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct CostCurve {
    /// Windows so far.
    now: u64,
    /// A plain step in windows of each length, overhead included.
    plain: [Average; WINDOWS.len()],
    /// A step of each width, overhead excluded.
    trees: [Average; WIDTHS.len()],
}

fn column(steps: u32) -> usize {
    WINDOWS.iter().filter(|window| **window <= steps).count().saturating_sub(1)
}

/// Index of a width in [`WIDTHS`]; any other counts as the next narrower one.
fn row(nodes: u32) -> usize {
    WIDTHS.iter().filter(|width| **width <= nodes).count().saturating_sub(1)
}

impl CostCurve {
    /// A window of `steps` steps took `elapsed_us`.
    pub fn observe(&mut self, width: Width, steps: u32, elapsed_us: u64) {
        if steps == 0 {
            return;
        }
        // A clock that did not move has measured nothing finer than a microsecond.
        let step_us = elapsed_us.max(1) as f64 / f64::from(steps);
        self.now += 1;
        match width {
            Width::Off => self.plain[column(steps)].observe(step_us, self.now),
            Width::Nodes(nodes) => {
                let share = self.overhead_us() / f64::from(steps);
                self.trees[row(nodes)].observe((step_us - share).max(OVERHEAD_MAX * step_us), self.now);
            }
        }
    }

    /// What was measured is kept, and is not quite known any more.
    pub fn age(&mut self) {
        let all = self.plain.iter_mut().chain(&mut self.trees);
        all.for_each(|average| average.samples = average.samples.min(KNOWN_SAMPLES - 1));
    }

    /// All averages, plain ones first; 0 where nothing was measured.
    pub fn values(&self) -> [f64; COSTS] {
        let mut all = self.plain.iter().chain(&self.trees);
        std::array::from_fn(|_| all.next().and_then(|average| average.known()).unwrap_or(0.0))
    }

    /// Costs of an earlier visit, trusted no more than a first sample.
    pub fn recall(&mut self, values: [f64; COSTS]) {
        let all = self.plain.iter_mut().chain(&mut self.trees);
        for (average, us) in all.zip(values).filter(|(_, us)| *us > 0.0) {
            *average = Average { us, samples: 1, at: self.now };
        }
    }

    /// What should be measured next: plain windows, then trees from narrow to wide until they grow with their
    /// nodes.
    pub fn unmeasured(&self) -> Option<(Width, u32)> {
        for steps in [WINDOWS[0], WINDOWS[2]] {
            if self.plain[column(steps)].samples == 0 {
                return Some((Width::Off, steps));
            }
        }
        let mut narrower: Option<f64> = None;
        for (nodes, average) in WIDTHS.into_iter().zip(&self.trees) {
            let Some(us) = average.known() else { return Some((Width::Nodes(nodes), 1)) };
            if nodes > 2 && narrower.is_some_and(|narrower| us >= LINEAR * narrower) {
                return None;
            }
            narrower = Some(us);
        }
        None
    }

    /// Plain windows of this length that were measured.
    pub fn plain_samples(&self, steps: u32) -> u32 {
        self.plain[column(steps)].samples
    }

    /// Whether a tree should be measured again before it is passed over.
    pub fn is_doubtful(&self, width: Width) -> bool {
        let average = self.trees[row(width.rows())];
        average.samples < KNOWN_SAMPLES || self.is_stale(average)
    }

    fn is_stale(&self, average: Average) -> bool {
        self.now - average.at >= STALE_WINDOWS
    }

    /// Windows of this width that were measured.
    pub fn samples(&self, width: Width) -> u32 {
        match width {
            Width::Off => self.plain.iter().fold(0, |sum, average| sum.saturating_add(average.samples)),
            Width::Nodes(nodes) => self.trees[row(nodes)].samples,
        }
    }

    /// The widest that was measured, in nodes.
    pub fn widest(&self) -> u32 {
        let measured = WIDTHS.iter().zip(&self.trees).rev().find(|(_, average)| average.samples > 0);
        measured.map_or(1, |(nodes, _)| *nodes)
    }

    /// Microseconds of a step in windows of `steps`; `None` before plain decoding was measured.
    pub fn step_us(&self, width: Width, steps: u32) -> Option<f64> {
        let steps = f64::from(steps);
        let overhead_us = self.overhead_us();
        match width {
            Width::Off => {
                let plain = self.plain[column(steps as u32)].known();
                plain.or_else(|| Some(self.plain_step_us()? + overhead_us / steps))
            }
            Width::Nodes(nodes) => Some(self.tree_us(row(nodes))? + overhead_us / steps),
        }
    }

    /// The least that a step may turn out to cost, as far as is known: no less than a narrower one.
    pub fn hopeful_us(&self, width: Width, steps: u32) -> Option<f64> {
        let plain_us = self.plain_step_us()?;
        let Width::Nodes(nodes) = width else { return self.step_us(width, steps) };
        let row = row(nodes);
        let average = self.trees[row];
        let tree_us = match average.samples {
            0 => self.trees[..row].iter().rev().find_map(|narrower| narrower.known()).unwrap_or(plain_us),
            samples if samples < KNOWN_SAMPLES => FEW_SAMPLES_TRUST[samples as usize - 1] * average.us,
            _ if self.is_stale(average) => STALE_TRUST * average.us,
            _ => average.us,
        };
        Some(tree_us + self.overhead_us() / f64::from(steps))
    }

    /// What a window takes beside its steps, from the shortest and the longest plain windows measured.
    fn overhead_us(&self) -> f64 {
        let mut measured =
            WINDOWS.iter().zip(&self.plain).filter_map(|(w, us)| Some((f64::from(*w), us.known()?)));
        match (measured.next(), measured.next_back()) {
            (Some((short, short_us)), Some((long, long_us))) => {
                let overhead_us = (short_us - long_us) / (1.0 / short - 1.0 / long);
                overhead_us.clamp(0.0, OVERHEAD_MAX * long_us)
            }
            _ => 0.0,
        }
    }

    /// A plain step, overhead excluded.
    fn plain_step_us(&self) -> Option<f64> {
        let mut measured = WINDOWS.iter().zip(&self.plain).rev();
        let (steps, us) =
            measured.find_map(|(steps, average)| Some((f64::from(*steps), average.known()?)))?;
        Some(us - self.overhead_us() / steps)
    }

    /// A step of a row of the trees, overhead excluded: measured, or on a line between its neighbours.
    fn tree_us(&self, row: usize) -> Option<f64> {
        if let Some(measured) = self.trees[row].known() {
            return Some(measured);
        }
        let plain_us = self.plain_step_us()?;
        let nodes = |row: usize| f64::from(WIDTHS[row]);
        let known = |row: usize| Some((nodes(row), self.trees[row].known()?));
        // A plain step stands in for the narrowest.
        let below = (0..row).rev().find_map(known).unwrap_or((1.0, plain_us));
        if let Some((wide, high_us)) = (row + 1..WIDTHS.len()).find_map(known) {
            let share = if wide > below.0 { (nodes(row) - below.0) / (wide - below.0) } else { 1.0 };
            return Some(below.1 + (high_us - below.1).max(0.0) * share.clamp(0.0, 1.0));
        }
        // Beyond the widest: as much a node as the last nodes took, and no less than the guess.
        let slope = (below.1 - plain_us) / (below.0 - 1.0).max(1.0);
        Some(below.1 + (nodes(row) - below.0) * slope.max(NODE_COST * plain_us))
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
        assert!(us(&curve, 1) >= 10_000.0 && us(&curve, 32) > us(&curve, 2));
        curve.observe(Width::Nodes(8), 1, 12_000);
        curve.observe(Width::Nodes(32), 1, 60_000);
        let all = WIDTHS.map(|nodes| us(&curve, nodes));
        assert!(all.is_sorted(), "{all:?}");
        assert_eq!(us(&curve, 16), 28_000.0, "a third of the way from 8 to 32 nodes");
        assert_eq!(curve.hopeful_us(Width::Nodes(16), 1), Some(12_000.0), "or as little as 8 nodes");
    }

    #[test]
    fn plain_windows_tell_what_a_window_of_trees_takes() {
        let mut curve = CostCurve::default();
        curve.observe(Width::Off, 1, 11_000);
        curve.observe(Width::Off, 4, 41_000);
        curve.observe(Width::Nodes(8), 1, 21_000);
        assert_eq!(curve.step_us(Width::Nodes(8), 4), Some(20_250.0));
        assert_eq!(curve.step_us(Width::Off, 2), Some(10_500.0));
    }

    #[test]
    fn measuring_ends_where_trees_grow_with_their_nodes() {
        let mut curve = CostCurve::default();
        let mut asked = Vec::new();
        while let Some((width, steps)) = curve.unmeasured() {
            asked.push((width.rows(), steps));
            curve.observe(width, steps, u64::from(steps) * if width.rows() == 16 { 9_000 } else { 4_000 });
        }
        assert_eq!(asked, [(1, 1), (1, 4), (1, 1), (2, 1), (4, 1), (8, 1), (16, 1)], "and 32 is left out");
        let mut other = CostCurve::default();
        other.recall(curve.values());
        assert_eq!((other.values(), other.unmeasured()), (curve.values(), None));
    }

    #[test]
    fn one_slow_window_is_passed_over_and_a_slow_device_is_followed() {
        let mut curve = CostCurve::default();
        curve.observe(Width::Off, 1, 10_000);
        curve.observe(Width::Off, 1, 1_000_000);
        assert_eq!(curve.step_us(Width::Off, 1), Some(12_500.0));
        for _ in 0..60 {
            curve.observe(Width::Off, 1, 100_000);
        }
        assert!((95_000.0..105_000.0).contains(&curve.step_us(Width::Off, 1).unwrap()));
    }
}
