//! Follows why nothing is in flight, for telemetry.

use std::cell::Cell;
use std::rc::Rc;

use fanlight_messages::protocol::telemetry::{Gap, GapCause};

use crate::kit::Clock;

/// The gaps of a device; clones see the same ones.
#[derive(Clone)]
pub struct Gaps {
    clock: Clock,
    meter: Rc<Cell<GapMeter>>,
}

impl Gaps {
    /// Nothing is in flight.
    pub fn new(clock: Clock) -> Self {
        let meter = Rc::new(Cell::new(GapMeter::new(clock.now_us())));
        Self { clock, meter }
    }

    fn with<T>(&self, change: impl FnOnce(&mut GapMeter, u64) -> T) -> T {
        let mut meter = self.meter.get();
        let result = change(&mut meter, self.clock.now_us());
        self.meter.set(meter);
        result
    }

    /// A run that was asked for at `asked_us` begins.
    pub(super) fn begin_run(&self, asked_us: Option<u64>) {
        self.with(|meter, now_us| meter.begin_run(asked_us, now_us));
    }

    /// The time until now that has no cause yet is this one's.
    pub(super) fn spend(&self, cause: GapCause) {
        self.with(|meter, now_us| meter.spend(now_us, cause));
    }

    /// A piece is complete: if nothing else is in flight, there is a gap from now on.
    pub(super) fn restart(&self) {
        self.with(|meter, now_us| *meter = GapMeter::new(now_us));
    }

    /// What the gap was made of; none where something `is_busy` still.
    pub(super) fn take(&self, is_busy: bool) -> Gap {
        self.with(|meter, _| meter.take(is_busy))
    }
}

/// The time since the device last had something to do, cause by cause. Pure: time comes in as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GapMeter {
    since_us: u64,
    gap: Gap,
}

impl GapMeter {
    /// Nothing is in flight from `now_us` on.
    fn new(now_us: u64) -> Self {
        Self { since_us: now_us, gap: Gap::default() }
    }

    /// A run that was asked for at `asked_us` begins.
    fn begin_run(&mut self, asked_us: Option<u64>, now_us: u64) {
        self.spend(asked_us.unwrap_or(now_us).min(now_us), GapCause::Idle);
        self.spend(now_us, GapCause::Prepare);
    }

    /// The time until `now_us` that has no cause yet is this one's.
    fn spend(&mut self, now_us: u64, cause: GapCause) {
        *self.gap.of(cause) += now_us.saturating_sub(self.since_us);
        self.since_us = self.since_us.max(now_us);
    }

    /// What the gap was made of; none where something `is_busy` still.
    fn take(&mut self, is_busy: bool) -> Gap {
        let gap = std::mem::take(&mut self.gap);
        if is_busy { Gap::default() } else { gap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_microsecond_has_one_cause() {
        let mut meter = GapMeter::new(100);
        meter.begin_run(Some(150), 160);
        meter.spend(200, GapCause::Compile);
        meter.spend(200, GapCause::Consumer);
        // A clock that stands still or goes back adds nothing.
        meter.spend(190, GapCause::Rest);
        meter.spend(207, GapCause::Host);
        let gap = meter.take(false);
        let wanted = Gap { idle_us: 50, prepare_us: 10, compile_us: 40, host_us: 7, ..Gap::default() };
        assert_eq!((gap, gap.total_us()), (wanted, 107));
        meter.spend(300, GapCause::Host);
        assert_eq!(meter.take(true), Gap::default(), "the device was busy");
        // What was asked for before the device had ended with the run before is no idleness.
        let mut meter = GapMeter::new(100);
        meter.begin_run(Some(40), 130);
        assert_eq!(meter.take(false), Gap { prepare_us: 30, ..Gap::default() });
        meter.begin_run(None, 150);
        assert_eq!(meter.take(false), Gap { idle_us: 20, ..Gap::default() });
    }
}
