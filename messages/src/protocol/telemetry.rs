//! Telemetry records samples that may be dropped, and shows what it kept.

use super::engine::DraftStats;
use super::{Lane, Request};

/// A thing that was measured (never awaited; counted when dropped).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordSample {
    /// A prompt batch of `tokens` took `elapsed_us`.
    Prompt {
        /// Tokens of the batch.
        tokens: u32,
        /// Microseconds.
        elapsed_us: u64,
    },
    /// A window of `steps` took `elapsed_us` and emitted `tokens`.
    Window {
        /// Steps of the window.
        steps: u32,
        /// Tokens it emitted.
        tokens: u32,
        /// Microseconds.
        elapsed_us: u64,
    },
    /// A piece of the weights was uploaded.
    Upload {
        /// Bytes in file format.
        bytes: u64,
        /// Microseconds from read to upload.
        elapsed_us: u64,
    },
    /// A pass whose weights stream ended.
    Pass {
        /// Microseconds.
        elapsed_us: u64,
        /// Of these, how long there was nothing to submit because a page had not been read.
        starved_us: u64,
    },
    /// The pages of a pass were read.
    PassRead {
        /// Bytes from the source.
        read_bytes: u64,
        /// Bytes that host memory had kept.
        cached_bytes: u64,
        /// Microseconds for which pages that had been read waited for a free slot.
        waited_us: u64,
    },
    /// A reply ended.
    Reply {
        /// Tokens of it.
        tokens: u32,
        /// Microseconds to the first token.
        first_token_us: u64,
    },
}

/// What drafts were worth in the live steps of a window (never awaited; counted when dropped). Summed, not
/// traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordDrafts(pub DraftStats);

/// Asks for what was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeSnapshot;

/// The answer: sums, histograms and the last samples.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapshotTaken {
    /// Prompt batches by microseconds.
    pub prompt_us: HistogramSnapshot,
    /// Windows by microseconds.
    pub window_us: HistogramSnapshot,
    /// Uploads by microseconds.
    pub upload_us: HistogramSnapshot,
    /// Replies by microseconds to the first token.
    pub first_token_us: HistogramSnapshot,
    /// Passes whose weights stream.
    pub passes: PassTotals,
    /// Prompt tokens evaluated.
    pub prompt_tokens: u64,
    /// Tokens emitted.
    pub tokens: u64,
    /// Bytes uploaded.
    pub upload_bytes: u64,
    /// What drafts were worth in all live steps.
    pub drafts: DraftStats,
    /// Samples that found the queue full.
    pub dropped_samples: u64,
    /// The last samples with the microsecond they arrived at, oldest first.
    pub trace: Vec<(u64, RecordSample)>,
    /// Samples that the trace had to let go.
    pub overwritten_samples: u64,
}

/// Sums over passes whose weights stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PassTotals {
    /// Passes.
    pub count: u64,
    /// Microseconds of all.
    pub elapsed_us: u64,
    /// Microseconds for which a pass waited for a page.
    pub starved_us: u64,
    /// Bytes from the source.
    pub read_bytes: u64,
    /// Bytes from host memory.
    pub cached_bytes: u64,
    /// Microseconds for which a page waited for a slot.
    pub waited_us: u64,
}

/// Counts by powers of two.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistogramSnapshot {
    /// Samples.
    pub count: u64,
    /// Sum of all values.
    pub sum: u64,
    /// Largest value.
    pub max: u64,
    /// `(upper bound, count)` of every bucket that is not empty, bounds exclusive and ascending.
    pub buckets: Vec<(u64, u64)>,
}

impl Request for TakeSnapshot {
    type Reply = SnapshotTaken;
    const LANE: Lane = Lane::Control;
}
