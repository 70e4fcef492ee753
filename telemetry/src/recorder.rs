//! All that telemetry keeps.

use fanlight_messages::limits::TRACE_SAMPLES;
use fanlight_messages::protocol::engine::DraftStats;
use fanlight_messages::protocol::telemetry::{PassTotals, RecordSample, SnapshotTaken};

use crate::{Histogram, TraceRing};

/// Sums, histograms and the trace; of constant size once the trace is full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorder {
    prompt_us: Histogram,
    window_us: Histogram,
    upload_us: Histogram,
    first_token_us: Histogram,
    passes: PassTotals,
    prompt_tokens: u64,
    tokens: u64,
    upload_bytes: u64,
    drafts: DraftStats,
    trace: TraceRing,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            prompt_us: Histogram::default(),
            window_us: Histogram::default(),
            upload_us: Histogram::default(),
            first_token_us: Histogram::default(),
            passes: PassTotals::default(),
            prompt_tokens: 0,
            tokens: 0,
            upload_bytes: 0,
            drafts: DraftStats::default(),
            trace: TraceRing::new(TRACE_SAMPLES),
        }
    }
}

impl Recorder {
    /// Takes a sample that arrived at `now_us`.
    pub fn record(&mut self, now_us: u64, sample: RecordSample) {
        match sample {
            RecordSample::Prompt { tokens, elapsed_us } => {
                self.prompt_us.record(elapsed_us);
                self.prompt_tokens += u64::from(tokens);
            }
            RecordSample::Window { elapsed_us, .. } => self.window_us.record(elapsed_us),
            RecordSample::Upload { bytes, elapsed_us } => {
                self.upload_us.record(elapsed_us);
                self.upload_bytes = self.upload_bytes.saturating_add(bytes);
            }
            RecordSample::Pass { elapsed_us, starved_us } => {
                self.passes.count += 1;
                self.passes.elapsed_us += elapsed_us;
                self.passes.starved_us += starved_us;
            }
            RecordSample::PassRead { read_bytes, cached_bytes, waited_us } => {
                self.passes.read_bytes = self.passes.read_bytes.saturating_add(read_bytes);
                self.passes.cached_bytes = self.passes.cached_bytes.saturating_add(cached_bytes);
                self.passes.waited_us += waited_us;
            }
            RecordSample::Reply { tokens, first_token_us } => {
                self.first_token_us.record(first_token_us);
                self.tokens += u64::from(tokens);
            }
        }
        self.trace.record(now_us, sample);
    }

    /// Adds what drafts were worth.
    pub fn record_drafts(&mut self, drafts: &DraftStats) {
        self.drafts.merge(drafts);
    }

    /// What was kept; `dropped_samples` is what the queue before it had no room for.
    pub fn snapshot(&self, dropped_samples: u64) -> SnapshotTaken {
        SnapshotTaken {
            prompt_us: self.prompt_us.snapshot(),
            window_us: self.window_us.snapshot(),
            upload_us: self.upload_us.snapshot(),
            first_token_us: self.first_token_us.snapshot(),
            passes: self.passes,
            prompt_tokens: self.prompt_tokens,
            tokens: self.tokens,
            upload_bytes: self.upload_bytes,
            drafts: self.drafts,
            dropped_samples,
            trace: self.trace.samples().collect(),
            overwritten_samples: self.trace.overwritten(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_kept_for_all_samples_and_the_trace_for_the_last() {
        let mut recorder = Recorder::default();
        let samples = TRACE_SAMPLES as u64 + 10;
        for now_us in 0..samples {
            recorder.record(now_us, RecordSample::Upload { bytes: 3, elapsed_us: 5 });
        }
        recorder.record(samples, RecordSample::Reply { tokens: 7, first_token_us: 100 });
        let snapshot = recorder.snapshot(4);
        assert_eq!((snapshot.upload_bytes, snapshot.tokens), (3 * samples, 7));
        assert_eq!((snapshot.upload_us.count, snapshot.upload_us.buckets), (samples, vec![(8, samples)]));
        assert_eq!((snapshot.overwritten_samples, snapshot.dropped_samples), (11, 4));
        assert_eq!(snapshot.trace.len(), TRACE_SAMPLES);
        assert_eq!(snapshot.trace[0].0, 11);
    }
}
