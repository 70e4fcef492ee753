//! Time as the shells see it: microseconds since an arbitrary start, real or virtual.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use futures_timer::Delay;
use web_time::Instant;

use super::turn::yield_now;

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

    /// Waits; a virtual clock moves on instead.
    pub async fn sleep(&self, us: u64) {
        match &self.0 {
            Source::Real(_) => Delay::new(Duration::from_micros(us)).await,
            Source::Virtual(now_us) => {
                now_us.set(now_us.get() + us);
                yield_now().await;
            }
        }
    }

    /// Microseconds since the start.
    pub fn now_us(&self) -> u64 {
        match &self.0 {
            Source::Real(start) => u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX),
            Source::Virtual(now_us) => now_us.get(),
        }
    }
}
