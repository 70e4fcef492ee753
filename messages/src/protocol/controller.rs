//! The controller hears what windows cost and latches the plan of the next ones.

use super::{Lane, Request};
use crate::control::StepRecord;
use crate::draft::{ORDERS, WIDTHS, Width, WidthPolicy};
use crate::error::CostRecordError;
use crate::limits::SUBMISSION_US_MAX;

/// One completed submission (a droppable sample; never awaited).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObserveWindow {
    /// Width of its steps.
    pub width: Width,
    /// Steps it held.
    pub steps: u32,
    /// Time since the completion before it, or since its submission when the device was idle, microseconds;
    /// `None` when the host was busy with something else meanwhile, so that this says nothing of the device.
    pub elapsed_us: Option<u64>,
    /// What its live steps did, at most [`WINDOW_STEPS_MAX`](crate::control::WINDOW_STEPS_MAX).
    pub records: Vec<StepRecord>,
}

/// Sets what the plan may choose from, at the start of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigurePlan {
    /// Steps per window, 1, 2 or 4, as far as the cap allows; `None` takes the fewest that are nearly as
    /// fast as any.
    pub window_steps: Option<u32>,
    /// Nodes per step.
    pub width: WidthPolicy,
    /// Device time that a window should not exceed, microseconds; a window of one plain step is always
    /// allowed. The rest of a frame is left to others.
    pub frame_budget_us: Option<u64>,
    /// Whether weights stream: then a step is split into submissions, and neither cap nor gaps apply.
    pub streams: bool,
}

/// Another model is on the device: what was measured of the one before says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForgetCosts;

/// The plan for windows to come; the last value wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanChosen {
    /// Nodes per step.
    pub width: Width,
    /// Steps per window.
    pub steps: u32,
    /// Time that the device is left alone before the next window, microseconds; then one is in flight at
    /// most.
    pub gap_us: u64,
    /// Tokens per second that are expected of it while the device works; 0 where that is not known.
    pub tokens_per_s: u32,
    /// Time that a submission may keep the device, microseconds: longer steps are split.
    pub cap_us: u64,
}

impl Default for PlanChosen {
    /// A plain step at a time.
    fn default() -> Self {
        Self { width: Width::Off, steps: 1, gap_us: 0, tokens_per_s: 0, cap_us: SUBMISSION_US_MAX }
    }
}

/// Asks what should be measured next while nothing else is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChooseMeasurement;

impl Request for ChooseMeasurement {
    /// A window; `None` when everything that can matter is known.
    type Reply = Option<PlanChosen>;
    const LANE: Lane = Lane::Control;
}

/// Asks for the costs as a record to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeCosts {
    /// Names adapter, model and build.
    pub key: String,
}

impl Request for TakeCosts {
    /// The record; `None` when nothing was measured.
    type Reply = Option<Vec<u8>>;
    const LANE: Lane = Lane::Control;
}

/// Gives back costs that were kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallCosts {
    /// Names adapter, model and build.
    pub key: String,
    /// The record.
    pub record: Vec<u8>,
}

impl Request for RecallCosts {
    type Reply = Result<(), CostRecordError>;
    const LANE: Lane = Lane::Control;
}

/// Asks what the controller knows and does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakeControllerSnapshot;

impl Request for TakeControllerSnapshot {
    type Reply = ControllerSnapshot;
    const LANE: Lane = Lane::Control;
}

/// What the controller knows and does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ControllerSnapshot {
    /// Costs as the request found them: recalled, measured between requests, or learned by the one before.
    pub measured: CostsSnapshot,
    /// Costs as they are now.
    pub online: CostsSnapshot,
    /// Windows so far: plain ones, then by nodes, as in [`WIDTHS`].
    pub windows_by_width: [u64; WIDTHS.len() + 1],
    /// The last changes of width: the number of tokens so far, and the new width.
    pub widths: Vec<(u64, Width)>,
    /// What drafts were worth, by length of their longest match.
    pub acceptance: [MatchSnapshot; ORDERS as usize + 1],
    /// Windows that were probes.
    pub probes: u64,
    /// What they lost against plain decoding, microseconds; negative where they gained.
    pub probe_loss_us: i64,
}

/// Microseconds of a step, 0 where it was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CostsSnapshot {
    /// A plain step in windows of 1, 2 and 4 steps, with its share of the window's own cost.
    pub plain_us: [u64; 3],
    /// A step of each of [`WIDTHS`], without.
    pub tree_us: [u64; WIDTHS.len()],
}

/// Drafts of one match length that could be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MatchSnapshot {
    /// Steps.
    pub steps: u64,
    /// Nodes that were looked at, each as far as it was promised, in thousandths.
    pub promised_milli: u64,
    /// Nodes that were right.
    pub right: u64,
}
