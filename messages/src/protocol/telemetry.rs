//! Telemetry records samples that may be dropped, and shows what it kept.
//!
//! Times are microseconds of the engine's clock, which begins with the engine.

use std::rc::Rc;

use super::controller::{ControllerSnapshot, PlanChosen};
use super::engine::DraftStats;
use super::{Lane, Request};
use crate::device::{AdapterFacts, Quarantined};
use crate::draft::Width;
use crate::layout::{PagePlanes, ResidentFormat};
use crate::limits::PAGE_MAP_CELLS;
use crate::plan::{BUFFER_CLASSES, GpuPlan, PageRange};
use crate::program::Program;

/// A thing that was measured (never awaited; counted when dropped).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordSample {
    /// The device did a piece of a run.
    Piece(Piece),
    /// A stretch of the weights was uploaded.
    Upload {
        /// Bytes in file format.
        bytes: u64,
        /// Microseconds from read to upload.
        elapsed_us: u64,
    },
    /// The pages of a pass were read.
    PassRead {
        /// Bytes from the source.
        read_bytes: u64,
        /// Bytes that host memory had kept.
        cached_bytes: u64,
        /// Bytes that host memory keeps now.
        kept_bytes: u64,
        /// Microseconds for which pages that had been read waited for a free slot.
        waited_us: u64,
    },
    /// The first token of a reply was shown.
    FirstToken(Phases),
    /// A reply ended.
    Reply(Reply),
}

/// A prompt batch or a window: when, how wide, what came of it, and why the device rested before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// What it was.
    pub kind: PieceKind,
    /// Width of a window's steps.
    pub width: Width,
    /// Steps of a window, 0 of a prompt batch.
    pub steps: u32,
    /// Those that did something; later ones found the reply ended.
    pub live_steps: u32,
    /// Tokens of the batch, or tokens that the window emitted.
    pub tokens: u32,
    /// Tokens per second that the controller expected of it while the device works; 0 where it did not know.
    pub expected_tokens_per_s: u32,
    /// When it was submitted.
    pub submitted_us: u64,
    /// When the device began with it: at its submission, or when the piece before was complete.
    pub began_us: u64,
    /// When the host heard that it was complete.
    pub completed_us: u64,
    /// Why nothing was in flight before it.
    pub gap: Gap,
    /// Where weights stream: how long, within it, nothing could be submitted because a page or the embedding
    /// rows had not been read.
    pub starved_us: Option<u64>,
}

impl Piece {
    /// A piece of which nothing is known yet but what it is.
    pub fn new(kind: PieceKind, width: Width, steps: u32) -> Self {
        Self {
            kind,
            width,
            steps,
            live_steps: 0,
            tokens: 0,
            expected_tokens_per_s: 0,
            submitted_us: 0,
            began_us: 0,
            completed_us: 0,
            gap: Gap::default(),
            starved_us: None,
        }
    }

    /// Takes what a plan promises, where it is that of this piece.
    pub fn expect(&mut self, plan: &PlanChosen) {
        if self.steps > 0 && self.width == plan.width {
            self.expected_tokens_per_s = plan.tokens_per_s;
        }
    }

    /// How long the device was busy with it.
    pub fn elapsed_us(&self) -> u64 {
        self.completed_us.saturating_sub(self.began_us)
    }
}

/// What a piece of a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceKind {
    /// A prompt batch.
    Prompt,
    /// A window of steps.
    Window,
    /// A piece of a run whose tokens nobody sees: it measures what windows cost.
    Measurement,
}

/// Why the device had nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapCause {
    /// Nobody had asked for anything.
    Idle,
    /// The prompt was made into tokens and memory recalled.
    Prepare,
    /// Pipelines were compiled.
    Compile,
    /// The host read what came and recorded what follows.
    Host,
    /// The reader of the reply had not read what was there.
    Consumer,
    /// The frame budget leaves the rest of a frame to others.
    Rest,
}

/// Microseconds for which nothing was in flight, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "named after the causes of GapCause")]
pub struct Gap {
    pub idle_us: u64,
    pub prepare_us: u64,
    pub compile_us: u64,
    pub host_us: u64,
    pub consumer_us: u64,
    pub rest_us: u64,
}

impl Gap {
    /// The time of a cause.
    pub fn of(&mut self, cause: GapCause) -> &mut u64 {
        match cause {
            GapCause::Idle => &mut self.idle_us,
            GapCause::Prepare => &mut self.prepare_us,
            GapCause::Compile => &mut self.compile_us,
            GapCause::Host => &mut self.host_us,
            GapCause::Consumer => &mut self.consumer_us,
            GapCause::Rest => &mut self.rest_us,
        }
    }

    /// The time of all causes.
    pub fn total_us(&self) -> u64 {
        let Self { idle_us, prepare_us, compile_us, host_us, consumer_us, rest_us } = self;
        idle_us + prepare_us + compile_us + host_us + consumer_us + rest_us
    }

    /// Adds another gap.
    pub fn merge(&mut self, other: &Self) {
        use GapCause::{Compile, Consumer, Host, Idle, Prepare, Rest};
        let mut other = *other;
        for cause in [Idle, Prepare, Compile, Host, Consumer, Rest] {
            *self.of(cause) += *other.of(cause);
        }
    }
}

/// Where the time from the request to the first token went, microseconds of wall time. They follow each other
/// and add up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phases {
    /// When the first token was shown.
    pub shown_at_us: u64,
    /// From the request, as the host dates it, until the engine heard it.
    pub queue_us: u64,
    /// The chat template and the tokenizer.
    pub tokenise_us: u64,
    /// Recalling session memory, and bringing back a device that had been lost.
    pub recall_us: u64,
    /// Until the device began: compiling pipelines, writing the control block.
    pub compile_us: u64,
    /// Prompt batches.
    pub prefill_us: u64,
    /// Text, and handing it over.
    pub show_us: u64,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Those of them that the cache held.
    pub reused_tokens: u32,
}

impl Phases {
    /// From the request to the first token.
    pub fn total_us(&self) -> u64 {
        let Self { queue_us, tokenise_us, recall_us, compile_us, prefill_us, show_us, .. } = self;
        queue_us + tokenise_us + recall_us + compile_us + prefill_us + show_us
    }
}

/// A reply that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reply {
    /// Tokens of it.
    pub tokens: u32,
    /// From the request to the first token; `None` when none was shown.
    pub first_token_us: Option<u64>,
    /// From the request to the end.
    pub elapsed_us: u64,
    /// Tokens of earlier replies that session memory brought to draft from.
    pub memory_tokens: u32,
    /// Drafted tokens that were accepted.
    pub accepted_tokens: u32,
}

/// What drafts were worth in the live steps of a window (never awaited; counted when dropped). Summed, not
/// traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordDrafts(pub DraftStats);

/// Asks for what was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TakeSnapshot {
    /// Samples before this number are not wanted: [`SnapshotTaken::next`] of the snapshot before, or 0.
    pub after: u64,
}

/// The answer: sums, histograms and the last samples.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapshotTaken {
    /// When it was taken.
    pub now_us: u64,
    /// Prompt batches by microseconds.
    pub prompt_us: HistogramSnapshot,
    /// Windows by microseconds.
    pub window_us: HistogramSnapshot,
    /// Uploads by microseconds.
    pub upload_us: HistogramSnapshot,
    /// Replies by microseconds to the first token.
    pub first_token_us: HistogramSnapshot,
    /// What was done in all.
    pub totals: Totals,
    /// Passes whose weights stream.
    pub passes: PassTotals,
    /// What drafts were worth in all live steps.
    pub drafts: DraftStats,
    /// Phases of the last request that came to a first token.
    pub phases: Option<Phases>,
    /// Samples that found the queue full.
    pub dropped_samples: u64,
    /// The samples asked for that are still kept, with the microsecond they arrived at, oldest first.
    pub samples: Vec<(u64, RecordSample)>,
    /// Samples asked for that were let go before this snapshot.
    pub lost_samples: u64,
    /// Number of the sample that comes next.
    pub next: u64,
}

/// Sums over everything that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Replies that ended.
    pub replies: u64,
    /// Prompt tokens evaluated.
    pub prompt_tokens: u64,
    /// Tokens of replies.
    pub tokens: u64,
    /// Bytes uploaded.
    pub upload_bytes: u64,
    /// Microseconds for which the device worked on prompt batches and windows, measurements included.
    pub busy_us: u64,
    /// Microseconds for which nothing was in flight before a piece, by cause.
    pub gaps: Gap,
    /// Replies for which session memory brought something.
    pub memory_replies: u64,
    /// Tokens that it brought for them.
    pub memory_tokens: u64,
    /// Drafted tokens that were accepted in them, whether out of memory or of the prompt.
    pub memory_accepted: u64,
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
    /// Bytes that host memory keeps.
    pub kept_bytes: u64,
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

/// All that a host sees of an engine at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineSnapshot {
    /// What telemetry kept.
    pub kept: SnapshotTaken,
    /// What the controller knows and does.
    pub controller: ControllerSnapshot,
    /// The adapter and the model; a latched state.
    pub facts: Facts,
    /// Every actor.
    pub actors: Vec<ActorState>,
}

/// What computes, and what is loaded on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// The adapter; `None` before the first load.
    pub adapter: Option<Rc<AdapterFacts>>,
    /// The loaded model.
    pub model: Option<Rc<ModelFacts>>,
    /// What it must not use on this adapter, once for each purpose.
    pub quarantined: Vec<Quarantined>,
}

impl Facts {
    /// Something more was found.
    pub fn quarantine(&mut self, found: &[Quarantined]) {
        for found in found {
            if self.quarantined.iter().all(|known| known.purpose != found.purpose) {
                self.quarantined.push(found.clone());
            }
        }
    }
}

/// A loaded model and where its bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFacts {
    /// `general.name` of the file, or empty.
    pub name: String,
    /// Positions of the context.
    pub context_len: u32,
    /// Prompt tokens per batch.
    pub batch_tokens: u32,
    /// What it may take on the device; `None` for as much as the device gives.
    pub budget_bytes: Option<u64>,
    /// Bytes of host memory that may keep pages between passes.
    pub cache_bytes: u64,
    /// Bytes of the buffers of each of [`BUFFER_CLASSES`].
    pub ledger: [u64; BUFFER_CLASSES.len()],
    /// Pages that stay on the device, and their bytes.
    pub resident: Pages,
    /// Pages that stream, and their bytes on the device while they are there.
    pub streaming: Pages,
    /// Places that they stream through, and their bytes.
    pub slots: Pages,
    /// Bytes of the files that a pass reads.
    pub pass_bytes: u64,
    /// The weights in the order of the model, in at most [`PAGE_MAP_CELLS`] parts of equally many pages:
    /// thousandths of the bytes of each that stay on the device.
    pub map: Vec<u16>,
}

/// So many pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pages {
    /// Pages.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl ModelFacts {
    /// What the plan for a program says; budgets are left open.
    pub fn new(name: String, program: &Program, plan: &GpuPlan) -> Self {
        let page_bytes: Vec<u64> = plan.pages.iter().map(|page| bytes_of(page, program)).collect();
        let pages = || plan.pages.iter().zip(&page_bytes);
        let sum = |streams: bool| {
            let chosen = pages().filter(|(page, _)| page.slot.is_some() == streams);
            chosen.fold(Pages::default(), |sum, (_, bytes)| Pages {
                count: sum.count + 1,
                bytes: sum.bytes + bytes,
            })
        };
        let slots = plan.stream.as_ref().map_or(Pages::default(), |stream| Pages {
            count: stream.slots.into(),
            bytes: u64::from(stream.slots) * stream.slot_bytes,
        });
        let cell_len = plan.pages.len().div_ceil(PAGE_MAP_CELLS).max(1);
        let cells: Vec<_> = pages().collect();
        let map = cells.chunks(cell_len).map(|cell| {
            let all: u64 = cell.iter().map(|(_, bytes)| **bytes).sum();
            let stay = cell.iter().filter(|(page, _)| page.slot.is_none());
            (stay.map(|(_, bytes)| **bytes).sum::<u64>() * 1000 / all.max(1)) as u16
        });
        Self {
            name,
            context_len: plan.request.context_len,
            batch_tokens: plan.request.batch_tokens,
            budget_bytes: None,
            cache_bytes: 0,
            ledger: BUFFER_CLASSES.map(|class| plan.bytes_where(|owner| owner.class() == class)),
            resident: sum(false),
            streaming: sum(true),
            slots,
            pass_bytes: plan.stream.as_ref().map_or(0, |stream| stream.pass_bytes),
            map: map.collect(),
        }
    }
}

/// Bytes of a page as it lies on the device.
fn bytes_of(page: &PageRange, program: &Program) -> u64 {
    let Some(spec) = program.matrices.get(page.matrix.index()) else { return 0 };
    PagePlanes::new(ResidentFormat::of(spec.tensor_type), page.rows, spec.columns).total_bytes
}

/// An actor as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActorState {
    /// Which.
    pub name: &'static str,
    /// Its control lane.
    pub control: LaneState,
    /// Its inbox.
    pub inbox: LaneState,
    /// The last thing that failed in it, cut to [`ERROR_CHARS`](crate::limits::ERROR_CHARS); empty when
    /// nothing has.
    pub last_error: String,
}

/// A lane of a mailbox as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneState {
    /// Places.
    pub capacity: u64,
    /// Messages that wait to be read.
    pub depth: u64,
    /// Most of them at once.
    pub depth_max: u64,
    /// Senders that had to wait for a place.
    pub waits: u64,
    /// Messages that found no place and were dropped.
    pub drops: u64,
}
