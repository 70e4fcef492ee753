//! What leaves the engine as text or as an object of a page's script: the only place of the engine that names
//! serde. Field names are the format, and `docs/telemetry.md` explains them; the page's types are generated
//! from these.
//!
//! Nothing of a prompt, of a reply or of a file's name is in it, but for the model's name and the texts of
//! errors.

mod samples;
mod state;

use serde::Serialize;
use tsify::Tsify;

pub use samples::{GapWire, PhasesWire, PieceKindWire, SampleWire};
pub use state::{
    ActorWire, AdapterWire, ControllerWire, CostsWire, LaneWire, LedgerWire, MatchWire, ModelWire, PagesWire,
    QuarantinedWire, WidthWire,
};

use crate::draft::Width;
use crate::protocol::engine::DraftStats;
use crate::protocol::telemetry::{EngineSnapshot, HistogramSnapshot, PassTotals, Totals};

/// Version of the format of a snapshot.
pub const SNAPSHOT_VERSION: u32 = 2;
/// Largest number that every reader of JSON holds exactly.
const EXACT_MAX: u64 = (1 << 53) - 1;

/// All that can be seen of an engine at one moment. Times are microseconds of the engine's clock, which
/// begins with the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotWire {
    /// Version of this format.
    pub version: u32,
    /// When it was taken.
    pub now_us: u64,
    /// What computes; absent before the first load.
    #[tsify(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<AdapterWire>,
    /// The loaded model; absent without one.
    #[tsify(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelWire>,
    /// Pipelines that the model must not use on this adapter.
    pub quarantined: Vec<QuarantinedWire>,
    /// Sums over everything so far.
    pub totals: TotalsWire,
    /// Prompt batches by microseconds.
    pub prompt_us: HistogramWire,
    /// Windows by microseconds.
    pub window_us: HistogramWire,
    /// Uploads by microseconds.
    pub upload_us: HistogramWire,
    /// Replies by microseconds to the first token.
    pub first_token_us: HistogramWire,
    /// Phases of the last request that came to a first token; absent before.
    #[tsify(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phases: Option<PhasesWire>,
    /// Passes whose weights streamed.
    pub passes: PassesWire,
    /// What drafts were worth.
    pub drafts: DraftsWire,
    /// What the controller knows and does.
    pub controller: ControllerWire,
    /// Every actor.
    pub actors: Vec<ActorWire>,
    /// Samples that found the queue full.
    pub dropped_samples: u64,
    /// Samples that were let go since the snapshot before.
    pub lost_samples: u64,
    /// Samples since the snapshot before that are still kept, oldest first.
    pub samples: Vec<SampleWire>,
    /// Number of the sample that comes next: what the next snapshot is to be asked for.
    pub next: u64,
}

impl From<&EngineSnapshot> for SnapshotWire {
    fn from(snapshot: &EngineSnapshot) -> Self {
        let EngineSnapshot { kept, controller, facts, actors } = snapshot;
        Self {
            version: SNAPSHOT_VERSION,
            now_us: kept.now_us,
            adapter: facts.adapter.as_deref().map(Into::into),
            model: facts.model.as_deref().map(Into::into),
            quarantined: facts.quarantined.iter().map(Into::into).collect(),
            totals: kept.totals.into(),
            prompt_us: (&kept.prompt_us).into(),
            window_us: (&kept.window_us).into(),
            upload_us: (&kept.upload_us).into(),
            first_token_us: (&kept.first_token_us).into(),
            phases: kept.phases.map(Into::into),
            passes: kept.passes.into(),
            drafts: (&kept.drafts).into(),
            controller: controller.into(),
            actors: actors.iter().map(Into::into).collect(),
            dropped_samples: kept.dropped_samples,
            lost_samples: kept.lost_samples,
            samples: kept.samples.iter().map(|(at_us, sample)| SampleWire::new(*at_us, *sample)).collect(),
            next: kept.next,
        }
    }
}

/// Sums over everything so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct TotalsWire {
    /// Replies that ended.
    pub replies: u64,
    /// Prompt tokens evaluated.
    pub prompt_tokens: u64,
    /// Tokens of replies.
    pub tokens: u64,
    /// Bytes uploaded.
    pub upload_bytes: u64,
    /// Microseconds for which the device worked on prompt batches and windows.
    pub busy_us: u64,
    /// Microseconds for which nothing was in flight before one, by cause.
    pub gaps: GapWire,
    /// Replies for which session memory brought something to draft from.
    pub memory_replies: u64,
    /// Tokens that it brought for them.
    pub memory_tokens: u64,
    /// Drafted tokens that were accepted in them, whether out of memory or of the prompt.
    pub memory_accepted: u64,
}

impl From<Totals> for TotalsWire {
    fn from(totals: Totals) -> Self {
        Self {
            replies: totals.replies,
            prompt_tokens: totals.prompt_tokens,
            tokens: totals.tokens,
            upload_bytes: totals.upload_bytes,
            busy_us: totals.busy_us,
            gaps: totals.gaps.into(),
            memory_replies: totals.memory_replies,
            memory_tokens: totals.memory_tokens,
            memory_accepted: totals.memory_accepted,
        }
    }
}

/// Sums over the passes whose weights streamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
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
    /// Bytes that host memory keeps now.
    pub kept_bytes: u64,
    /// Microseconds for which pages that had been read waited for a free slot.
    pub waited_us: u64,
}

impl From<PassTotals> for PassesWire {
    fn from(totals: PassTotals) -> Self {
        let PassTotals { count, elapsed_us, starved_us, read_bytes, cached_bytes, kept_bytes, waited_us } =
            totals;
        Self { count, elapsed_us, starved_us, read_bytes, cached_bytes, kept_bytes, waited_us }
    }
}

/// What drafts were worth, over all live steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
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

/// Counts by powers of two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
pub struct HistogramWire {
    /// Samples.
    pub count: u64,
    /// Sum of all values.
    pub sum: u64,
    /// Largest value.
    pub max: u64,
    /// `[upper bound, count]` of every bucket that is not empty, bounds exclusive and ascending.
    pub buckets: Vec<(u64, u64)>,
}

impl From<&HistogramSnapshot> for HistogramWire {
    fn from(snapshot: &HistogramSnapshot) -> Self {
        let HistogramSnapshot { count, sum, max, buckets } = snapshot;
        let buckets = buckets.iter().map(|(bound, count)| ((*bound).min(EXACT_MAX), *count)).collect();
        Self { count: *count, sum: (*sum).min(EXACT_MAX), max: (*max).min(EXACT_MAX), buckets }
    }
}

/// Nodes of a width; 0 is plain decoding.
fn nodes(width: Width) -> u32 {
    match width {
        Width::Off => 0,
        Width::Nodes(nodes) => nodes,
    }
}
