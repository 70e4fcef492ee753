//! An exponential average.

/// The average of values whose weight halves roughly every third sample; the first value is taken whole.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DecayingAverage {
    value: Option<f64>,
}

impl DecayingAverage {
    /// Weight of the newest sample: quick enough to follow a laptop that throttles, slow enough to pass over
    /// one window that shared the device.
    const NEWEST_WEIGHT: f64 = 0.2;

    /// Takes a sample; one that is not finite or negative is ignored.
    pub fn observe(&mut self, sample: f64) {
        if !sample.is_finite() || sample < 0.0 {
            return;
        }
        let value = self.value.unwrap_or(sample);
        self.value = Some(value + Self::NEWEST_WEIGHT * (sample - value));
    }

    /// The average, `None` before the first sample.
    pub fn value(&self) -> Option<f64> {
        self.value
    }
}
