//! All that telemetry keeps.

use fanlight_messages::limits::TRACE_SAMPLES;
use fanlight_messages::protocol::engine::DraftStats;
use fanlight_messages::protocol::telemetry::{
    PassTotals, Phases, Piece, PieceKind, RecordSample, Reply, SnapshotTaken, TakeSnapshot, Totals,
};

use crate::{Histogram, TraceRing};

/// Sums, histograms and the trace; of constant size once the trace is full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorder {
    prompt_us: Histogram,
    window_us: Histogram,
    upload_us: Histogram,
    first_token_us: Histogram,
    totals: Totals,
    passes: PassTotals,
    drafts: DraftStats,
    phases: Option<Phases>,
    trace: TraceRing,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            prompt_us: Histogram::default(),
            window_us: Histogram::default(),
            upload_us: Histogram::default(),
            first_token_us: Histogram::default(),
            totals: Totals::default(),
            passes: PassTotals::default(),
            drafts: DraftStats::default(),
            phases: None,
            trace: TraceRing::new(TRACE_SAMPLES),
        }
    }
}

impl Recorder {
    /// Takes a sample that arrived at `now_us`.
    pub fn record(&mut self, now_us: u64, sample: RecordSample) {
        match sample {
            RecordSample::Piece(piece) => self.piece(&piece),
            RecordSample::Upload { bytes, elapsed_us } => {
                self.upload_us.record(elapsed_us);
                self.totals.upload_bytes = self.totals.upload_bytes.saturating_add(bytes);
            }
            RecordSample::PassRead { read_bytes, cached_bytes, kept_bytes, waited_us } => {
                self.passes.read_bytes = self.passes.read_bytes.saturating_add(read_bytes);
                self.passes.cached_bytes = self.passes.cached_bytes.saturating_add(cached_bytes);
                self.passes.kept_bytes = kept_bytes;
                self.passes.waited_us += waited_us;
            }
            RecordSample::FirstToken(phases) => {
                self.first_token_us.record(phases.total_us());
                self.phases = Some(phases);
            }
            RecordSample::Reply(reply) => self.reply(&reply),
        }
        self.trace.record(now_us, sample);
    }

    fn piece(&mut self, piece: &Piece) {
        let elapsed_us = piece.elapsed_us();
        self.totals.busy_us += elapsed_us;
        self.totals.gaps.merge(&piece.gap);
        match piece.kind {
            PieceKind::Prompt => {
                self.prompt_us.record(elapsed_us);
                self.totals.prompt_tokens += u64::from(piece.tokens);
            }
            PieceKind::Window => self.window_us.record(elapsed_us),
            PieceKind::Measurement => {}
        }
        if let Some(starved_us) = piece.starved_us {
            self.passes.count += 1;
            self.passes.elapsed_us += elapsed_us;
            self.passes.starved_us += starved_us;
        }
    }

    fn reply(&mut self, reply: &Reply) {
        self.totals.replies += 1;
        self.totals.tokens += u64::from(reply.tokens);
        if reply.memory_tokens > 0 {
            self.totals.memory_replies += 1;
            self.totals.memory_tokens += u64::from(reply.memory_tokens);
            self.totals.memory_accepted += u64::from(reply.accepted_tokens);
        }
    }

    /// Adds what drafts were worth.
    pub fn record_drafts(&mut self, drafts: &DraftStats) {
        self.drafts.merge(drafts);
    }

    /// What was kept at `now_us`; `dropped_samples` is what the queue before it had no room for.
    pub fn snapshot(&self, asked: TakeSnapshot, now_us: u64, dropped_samples: u64) -> SnapshotTaken {
        let (samples, lost_samples) = self.trace.after(asked.after);
        SnapshotTaken {
            now_us,
            prompt_us: self.prompt_us.snapshot(),
            window_us: self.window_us.snapshot(),
            upload_us: self.upload_us.snapshot(),
            first_token_us: self.first_token_us.snapshot(),
            totals: self.totals,
            passes: self.passes,
            drafts: self.drafts,
            phases: self.phases,
            dropped_samples,
            samples: samples.collect(),
            lost_samples,
            next: self.trace.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use fanlight_messages::draft::Width;
    use fanlight_messages::protocol::telemetry::Gap;

    use super::*;

    fn window(completed_us: u64) -> RecordSample {
        RecordSample::Piece(Piece {
            kind: PieceKind::Window,
            width: Width::Nodes(8),
            steps: 2,
            live_steps: 2,
            tokens: 5,
            expected_tokens_per_s: 100,
            submitted_us: completed_us - 9,
            began_us: completed_us - 7,
            completed_us,
            gap: Gap { host_us: 2, ..Gap::default() },
            starved_us: None,
        })
    }

    #[test]
    fn sums_are_kept_for_all_samples_and_the_trace_for_the_last() {
        let mut recorder = Recorder::default();
        let samples = TRACE_SAMPLES as u64 + 10;
        for now_us in 0..samples {
            recorder.record(now_us, RecordSample::Upload { bytes: 3, elapsed_us: 5 });
        }
        let reply = Reply {
            tokens: 7,
            first_token_us: Some(100),
            memory_tokens: 9,
            accepted_tokens: 4,
            ..Reply::default()
        };
        recorder.record(samples, RecordSample::Reply(reply));
        let snapshot = recorder.snapshot(TakeSnapshot { after: 0 }, 77, 4);
        assert_eq!((snapshot.totals.upload_bytes, snapshot.totals.tokens), (3 * samples, 7));
        assert_eq!((snapshot.totals.memory_tokens, snapshot.totals.memory_accepted), (9, 4));
        assert_eq!((snapshot.upload_us.count, snapshot.upload_us.buckets), (samples, vec![(8, samples)]));
        assert_eq!((snapshot.lost_samples, snapshot.dropped_samples, snapshot.now_us), (11, 4, 77));
        assert_eq!((snapshot.samples.len(), snapshot.next), (TRACE_SAMPLES, samples + 1));
        assert_eq!(snapshot.samples[0].0, 11);
    }

    #[test]
    fn a_snapshot_goes_on_where_the_one_before_ended_and_counts_what_was_lost_between() {
        let mut recorder = Recorder::default();
        let (mut after, mut seen, mut lost) = (0, 0, 0);
        let mut sizes = Vec::new();
        // Polled now and then, more seldom than the ring is long every third time.
        for at_us in 10..100_010u64 {
            recorder.record(at_us, window(at_us));
            if at_us % 700 == 0 && at_us / 700 % 3 != 1 {
                let taken = recorder.snapshot(TakeSnapshot { after }, at_us, 0);
                assert_eq!(taken.samples.last(), Some(&(at_us, window(at_us))));
                assert!(taken.samples.is_sorted_by_key(|(at_us, _)| *at_us));
                (after, lost) = (taken.next, lost + taken.lost_samples);
                seen += taken.samples.len() as u64;
                sizes.push(taken.samples.len());
            }
        }
        let last = recorder.snapshot(TakeSnapshot { after }, 0, 0);
        seen += last.samples.len() as u64;
        lost += last.lost_samples;
        assert_eq!(seen + lost, 100_000, "every sample was seen once or counted");
        assert!(lost > 10_000 && sizes.contains(&TRACE_SAMPLES) && sizes.contains(&700), "{lost}");
        assert!(sizes.iter().all(|size| *size <= TRACE_SAMPLES), "it never grows");
        assert_eq!(last.totals.busy_us, 700_000);
        assert_eq!((last.totals.gaps.host_us, last.totals.gaps.total_us()), (200_000, 200_000));
        // Who asks for what is still to come hears nothing, and has lost nothing.
        let ahead = recorder.snapshot(TakeSnapshot { after: u64::MAX }, 0, 0);
        assert_eq!((ahead.samples.len(), ahead.lost_samples, ahead.next), (0, 0, 100_000));
    }
}
