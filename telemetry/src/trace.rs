//! The last samples, oldest first.

use std::collections::VecDeque;

use fanlight_messages::protocol::telemetry::RecordSample;

/// Keeps the last `capacity` samples and counts those it let go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceRing {
    samples: VecDeque<(u64, RecordSample)>,
    capacity: usize,
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

    /// What is kept, oldest first.
    pub fn samples(&self) -> impl Iterator<Item = (u64, RecordSample)> + '_ {
        self.samples.iter().copied()
    }

    /// Samples that were let go.
    pub fn overwritten(&self) -> u64 {
        self.overwritten
    }
}
