//! What leaves the engine as text: the only place of the engine that names serde. Field names are the format.

use serde::Serialize;

use crate::draft::Width;
use crate::protocol::controller::{ControllerSnapshot, CostsSnapshot};
use crate::protocol::engine::DraftStats;
use crate::protocol::telemetry::{HistogramSnapshot, PassTotals, RecordSample, SnapshotTaken};

/// A telemetry snapshot, version 1 of the format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SnapshotWire {
    /// Version of this format.
    pub version: u32,
    /// Prompt batches by microseconds.
    pub prompt_us: HistogramWire,
    /// Windows by microseconds.
    pub window_us: HistogramWire,
    /// Uploads by microseconds.
    pub upload_us: HistogramWire,
    /// Replies by microseconds to the first token.
    pub first_token_us: HistogramWire,
    /// Passes whose weights streamed.
    pub passes: PassesWire,
    /// Prompt tokens evaluated.
    pub prompt_tokens: u64,
    /// Tokens emitted.
    pub tokens: u64,
    /// Bytes uploaded.
    pub upload_bytes: u64,
    /// What drafts were worth.
    pub drafts: DraftsWire,
    /// Samples that found the queue full.
    pub dropped_samples: u64,
    /// Samples that the trace had to let go.
    pub overwritten_samples: u64,
    /// The last samples, oldest first.
    pub trace: Vec<TraceWire>,
}

/// Sums over the passes whose weights streamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PassesWire {
    /// Passes.
    pub count: u64,
    /// Microseconds of all.
    pub elapsed_us: u64,
    /// Microseconds for which nothing could be submitted because a page had not been read.
    pub starved_us: u64,
    /// Bytes read from the source.
    pub read_bytes: u64,
    /// Bytes that host memory had kept.
    pub cached_bytes: u64,
    /// Microseconds for which pages that had been read waited for a free slot.
    pub waited_us: u64,
}

impl From<PassTotals> for PassesWire {
    fn from(totals: PassTotals) -> Self {
        let PassTotals { count, elapsed_us, starved_us, read_bytes, cached_bytes, waited_us } = totals;
        Self { count, elapsed_us, starved_us, read_bytes, cached_bytes, waited_us }
    }
}

/// What drafts were worth, over all live steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DraftsWire {
    /// Nodes that were verified besides the roots.
    pub verified: u32,
    /// Nodes that were accepted.
    pub accepted: u32,
    /// Steps that accepted exactly 0, 1 … 8 nodes.
    pub steps_by_accepted: [u32; 9],
    /// Steps whose longest match had 0, 1 … 8 tokens.
    pub steps_by_match_length: [u32; 9],
}

impl From<&DraftStats> for DraftsWire {
    fn from(stats: &DraftStats) -> Self {
        let DraftStats { verified, accepted, accepted_by_depth, match_len } = *stats;
        Self { verified, accepted, steps_by_accepted: accepted_by_depth, steps_by_match_length: match_len }
    }
}

/// What the controller knows and does, version 1 of the format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ControllerWire {
    /// Version of this format.
    pub version: u32,
    /// Costs as the request found them.
    pub measured: CostsWire,
    /// Costs as they are now.
    pub online: CostsWire,
    /// Windows so far: plain ones, then of 1, 2, 4, 8, 16 and 32 nodes.
    pub windows_by_width: [u64; 7],
    /// The last changes of width: tokens so far, and nodes; 0 nodes are plain decoding.
    pub widths: Vec<(u64, u32)>,
    /// By length of the longest match, 0 to 8: steps that could be judged, the nodes that they promised in
    /// thousandths, and the nodes that were right.
    pub acceptance: [(u64, u64, u64); 9],
    /// Windows that were probes.
    pub probes: u64,
    /// What they lost against plain decoding, microseconds; negative where they gained.
    pub probe_loss_us: i64,
}

/// Microseconds of a step, 0 where it was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CostsWire {
    /// A plain step in windows of 1, 2 and 4 steps.
    pub plain_us: [u64; 3],
    /// A step of 1, 2, 4, 8, 16 and 32 nodes, without the window's own cost.
    pub tree_us: [u64; 6],
}

impl From<CostsSnapshot> for CostsWire {
    fn from(CostsSnapshot { plain_us, tree_us }: CostsSnapshot) -> Self {
        Self { plain_us, tree_us }
    }
}

impl From<&ControllerSnapshot> for ControllerWire {
    fn from(snapshot: &ControllerSnapshot) -> Self {
        let nodes = |width| match width {
            Width::Off => 0,
            Width::Nodes(nodes) => nodes,
        };
        Self {
            version: 1,
            measured: snapshot.measured.into(),
            online: snapshot.online.into(),
            windows_by_width: snapshot.windows_by_width,
            widths: snapshot.widths.iter().map(|(token, width)| (*token, nodes(*width))).collect(),
            acceptance: snapshot.acceptance.map(|of| (of.steps, of.promised_milli, of.right)),
            probes: snapshot.probes,
            probe_loss_us: snapshot.probe_loss_us,
        }
    }
}

/// Counts by powers of two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HistogramWire {
    /// Samples.
    pub count: u64,
    /// Sum of all values.
    pub sum: u64,
    /// Largest value.
    pub max: u64,
    /// `[upper bound, count]` of every bucket that is not empty.
    pub buckets: Vec<(u64, u64)>,
}

/// One sample of the trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceWire {
    /// Microseconds since the engine began.
    pub at_us: u64,
    /// What was measured.
    #[serde(flatten)]
    pub sample: SampleWire,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "named after the fields of RecordSample")]
pub enum SampleWire {
    Prompt { tokens: u32, elapsed_us: u64 },
    Window { steps: u32, tokens: u32, elapsed_us: u64 },
    Upload { bytes: u64, elapsed_us: u64 },
    Pass { elapsed_us: u64, starved_us: u64 },
    PassRead { read_bytes: u64, cached_bytes: u64, waited_us: u64 },
    Reply { tokens: u32, first_token_us: u64 },
}

impl From<&HistogramSnapshot> for HistogramWire {
    fn from(snapshot: &HistogramSnapshot) -> Self {
        let HistogramSnapshot { count, sum, max, buckets } = snapshot;
        Self { count: *count, sum: *sum, max: *max, buckets: buckets.clone() }
    }
}

impl From<RecordSample> for SampleWire {
    fn from(sample: RecordSample) -> Self {
        match sample {
            RecordSample::Prompt { tokens, elapsed_us } => Self::Prompt { tokens, elapsed_us },
            RecordSample::Window { steps, tokens, elapsed_us } => Self::Window { steps, tokens, elapsed_us },
            RecordSample::Upload { bytes, elapsed_us } => Self::Upload { bytes, elapsed_us },
            RecordSample::Pass { elapsed_us, starved_us } => Self::Pass { elapsed_us, starved_us },
            RecordSample::PassRead { read_bytes, cached_bytes, waited_us } => {
                Self::PassRead { read_bytes, cached_bytes, waited_us }
            }
            RecordSample::Reply { tokens, first_token_us } => Self::Reply { tokens, first_token_us },
        }
    }
}

impl From<&SnapshotTaken> for SnapshotWire {
    fn from(snapshot: &SnapshotTaken) -> Self {
        let trace = snapshot
            .trace
            .iter()
            .map(|(at_us, sample)| TraceWire { at_us: *at_us, sample: SampleWire::from(*sample) });
        Self {
            version: 1,
            prompt_us: (&snapshot.prompt_us).into(),
            window_us: (&snapshot.window_us).into(),
            upload_us: (&snapshot.upload_us).into(),
            first_token_us: (&snapshot.first_token_us).into(),
            passes: snapshot.passes.into(),
            prompt_tokens: snapshot.prompt_tokens,
            tokens: snapshot.tokens,
            upload_bytes: snapshot.upload_bytes,
            drafts: (&snapshot.drafts).into(),
            dropped_samples: snapshot.dropped_samples,
            overwritten_samples: snapshot.overwritten_samples,
            trace: trace.collect(),
        }
    }
}
