//! Steps per window: as many as were asked for, as long as a submission stays far below the watchdog.

use fanlight_messages::control::WINDOW_STEPS_MAX;
use fanlight_messages::draft::Width;
use fanlight_messages::limits::SUBMISSION_US_MAX;
use fanlight_messages::protocol::controller::PlanChosen;

use crate::DecayingAverage;

/// Plans windows of steps of one width.
///
/// The predicted time of a step is the exponential average of what steps took; before the first observation a
/// window is one step, so that an unknown device is never given more than it must do.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowPlanner {
    steps_max: u32,
    width: Width,
    step_us: DecayingAverage,
}

impl WindowPlanner {
    /// At most `steps_max` steps per window; clamped to 1..=[`WINDOW_STEPS_MAX`].
    pub fn new(steps_max: u32) -> Self {
        let mut planner = Self { steps_max: 1, width: Width::Off, step_us: DecayingAverage::default() };
        planner.limit_steps(steps_max);
        planner
    }

    /// Changes the most steps per window and keeps what was learned.
    pub fn limit_steps(&mut self, steps_max: u32) {
        self.steps_max = steps_max.clamp(1, WINDOW_STEPS_MAX);
    }

    /// Changes the width; what a step costs is learned anew.
    pub fn set_width(&mut self, width: Width) {
        if self.width != width {
            self.width = width;
            self.step_us = DecayingAverage::default();
        }
    }

    /// A window of `steps` steps took `elapsed_us` microseconds.
    pub fn observe(&mut self, steps: u32, elapsed_us: u64) {
        if steps > 0 {
            self.step_us.observe(elapsed_us as f64 / f64::from(steps));
        }
    }

    /// Predicted microseconds of a step, `None` before the first observation.
    pub fn step_us(&self) -> Option<f64> {
        self.step_us.value()
    }

    /// The plan for the next window.
    pub fn plan(&self) -> PlanChosen {
        let steps = match self.step_us.value() {
            None => 1,
            Some(step_us) if step_us < 1.0 => self.steps_max,
            // At least one step, however slow: a smaller submission would need the layers split.
            Some(step_us) => ((SUBMISSION_US_MAX as f64 / step_us) as u32).clamp(1, self.steps_max),
        };
        PlanChosen { width: self.width, steps }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_unknown_device_gets_one_step_and_a_fast_one_all() {
        let mut planner = WindowPlanner::new(4);
        assert_eq!(planner.plan().steps, 1);
        planner.observe(1, 5_000);
        assert_eq!(planner.plan(), PlanChosen { width: Width::Off, steps: 4 });
        planner.limit_steps(2);
        assert_eq!(planner.plan().steps, 2);
        planner.limit_steps(9);
        assert_eq!(planner.plan().steps, 4);
    }

    #[test]
    fn a_slow_device_is_kept_below_the_watchdog() {
        // 90 ms a step: two fit 200 ms, three do not.
        let mut planner = WindowPlanner::new(4);
        planner.observe(4, 360_000);
        assert_eq!(planner.plan().steps, 2);
        // 5 s a step cannot be helped by fewer steps than one.
        planner.observe(1, 1_000_000_000);
        assert_eq!(planner.plan().steps, 1);
    }

    #[test]
    fn one_slow_window_is_passed_over_and_a_slow_device_is_followed() {
        let mut planner = WindowPlanner::new(4);
        planner.observe(4, 40_000);
        planner.observe(4, 400_000);
        assert_eq!(planner.plan().steps, 4, "28 ms is predicted after one window of 100 ms a step");
        for _ in 0..8 {
            planner.observe(4, 400_000);
        }
        assert_eq!(planner.plan().steps, 2, "about 88 ms is predicted after nine such windows");
    }

    proptest! {
        #[test]
        fn predicted_time_never_exceeds_the_cap_with_more_than_one_step(
            steps_max in 0..20u32,
            samples in prop::collection::vec((0..5u32, any::<u64>()), 0..40),
        ) {
            let mut planner = WindowPlanner::new(steps_max);
            for (steps, elapsed_us) in samples {
                planner.observe(steps, elapsed_us);
                let plan = planner.plan();
                prop_assert!((1..=steps_max.clamp(1, 4)).contains(&plan.steps));
                let predicted = planner.step_us().unwrap_or(0.0) * f64::from(plan.steps);
                prop_assert!(plan.steps == 1 || predicted <= SUBMISSION_US_MAX as f64);
            }
        }
    }
}
