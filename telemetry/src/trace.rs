//! The last samples, oldest first, each with a number.

use std::collections::VecDeque;

use fanlight_messages::protocol::telemetry::RecordSample;

/// Keeps the last `capacity` samples and counts those it let go. Samples are numbered from 0 as they come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceRing {
    samples: VecDeque<(u64, RecordSample)>,
    capacity: usize,
    /// Samples that were let go: the number of the oldest that is kept.
    overwritten: u64,
}

impl TraceRing {
    /// An empty ring.
    pub fn new(capacity: usize) -> Self {
        Self { samples: VecDeque::new(), capacity, overwritten: 0 }
    }

    /// Keeps a sample that arrived at `now_us`, in place of the oldest when the ring is full.
    pub fn record(&mut self, now_us: u64, sample: RecordSample) {
        if self.samples.len() >= self.capacity {
            self.samples.pop_front();
            self.overwritten += 1;
        }
        if self.capacity > 0 {
            self.samples.push_back((now_us, sample));
        }
    }

    /// What is kept from number `after` on, oldest first, and how many from there on were let go.
    pub fn after(&self, after: u64) -> (impl Iterator<Item = (u64, RecordSample)> + '_, u64) {
        let known = after.saturating_sub(self.overwritten).min(self.samples.len() as u64) as usize;
        (self.samples.range(known..).copied(), self.overwritten.saturating_sub(after))
    }

    /// Number of the sample that comes next.
    pub fn next(&self) -> u64 {
        self.overwritten + self.samples.len() as u64
    }
}
