//! The controller hears what windows cost and latches the plan of the next ones.

use crate::draft::Width;

/// One completed submission (a droppable sample; never awaited).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObserveWindow {
    /// Steps it held.
    pub steps: u32,
    /// Time since the completion before it, or since its submission when the device was idle, microseconds.
    pub elapsed_us: u64,
}

/// Sets what the plan may choose from, at the start of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigurePlan {
    /// Most steps per window, 1, 2 or 4.
    pub steps_max: u32,
    /// Nodes per step.
    pub width: Width,
}

/// The plan for windows to come; the last value wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanChosen {
    /// Nodes per step.
    pub width: Width,
    /// Steps per window.
    pub steps: u32,
}
