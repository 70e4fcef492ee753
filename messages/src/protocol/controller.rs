//! The controller hears what windows cost and latches the plan of the next ones.

use crate::control::StepRecord;
use crate::draft::{Width, WidthPolicy};

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
    /// Most steps per window, 1, 2 or 4.
    pub steps_max: u32,
    /// Nodes per step.
    pub width: WidthPolicy,
    /// Device time that a window should not exceed, microseconds; a window of one plain step is always allowed.
    pub frame_budget_us: Option<u64>,
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
}
