//! Counts by powers of two: 65 numbers, whatever comes.

use fanlight_messages::protocol::telemetry::HistogramSnapshot;

/// Bucket `b` counts the values that have `b` significant bits: bucket 0 holds 0, bucket `b` the range
/// `2^(b-1) .. 2^b`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; 65],
    sum: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; 65], sum: 0, max: 0 }
    }
}

impl Histogram {
    /// Counts a value; the sum saturates.
    pub fn record(&mut self, value: u64) {
        let bucket = (u64::BITS - value.leading_zeros()) as usize;
        self.counts[bucket] += 1;
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
    }

    /// The buckets that are not empty. The bound of the last one saturates at `u64::MAX`.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let bound = |bucket: usize| 1u64.checked_shl(bucket as u32).unwrap_or(u64::MAX);
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        HistogramSnapshot {
            count: self.counts.iter().sum(),
            sum: self.sum,
            max: self.max,
            buckets: filled.map(|(bucket, count)| (bound(bucket), *count)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bounds_are_exclusive_and_the_ends_are_counted() {
        let mut histogram = Histogram::default();
        for value in [0, 1, 2, 3, 4, u64::MAX] {
            histogram.record(value);
        }
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.buckets, [(1, 1), (2, 1), (4, 2), (8, 1), (u64::MAX, 1)]);
        assert_eq!((snapshot.count, snapshot.max, snapshot.sum), (6, u64::MAX, u64::MAX));
    }

    proptest! {
        #[test]
        fn every_value_lies_below_its_bound(values in prop::collection::vec(0..u64::MAX / 2, 1..100)) {
            let mut histogram = Histogram::default();
            for value in &values {
                histogram.record(*value);
            }
            let mut below = 0;
            for (bound, count) in histogram.snapshot().buckets {
                below += count;
                prop_assert_eq!(values.iter().filter(|value| **value < bound).count() as u64, below);
            }
            prop_assert_eq!(below, values.len() as u64);
        }
    }
}
