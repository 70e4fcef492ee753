//! Time as the shells see it: microseconds since an arbitrary start, real or virtual.

use std::cell::Cell;
use std::rc::Rc;

use web_time::Instant;

/// A clock; clones show the same time.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    Real(Instant),
    Virtual(Rc<Cell<u64>>),
}

impl Clock {
    /// The platform's monotonic clock.
    pub fn real() -> Self {
        Self(Source::Real(Instant::now()))
    }

    /// A clock that shows what `now_us` holds, for simulations.
    pub fn simulated(now_us: Rc<Cell<u64>>) -> Self {
        Self(Source::Virtual(now_us))
    }

    /// Microseconds since the start.
    pub fn now_us(&self) -> u64 {
        match &self.0 {
            Source::Real(start) => u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX),
            Source::Virtual(now_us) => now_us.get(),
        }
    }
}
