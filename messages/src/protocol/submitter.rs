//! The submitter owns the device: it creates, uploads, and runs prompt batches and windows.

use std::rc::Rc;

use super::{Lane, Request};
use crate::bytes::SharedBytes;
use crate::device::{AdapterFacts, Quarantined, RequestSetup, WindowReport};
use crate::draft::WidthPolicy;
use crate::error::DeviceError;
use crate::plan::GpuPlan;
use crate::program::{MatrixId, Program, VectorId};

/// Asks what the adapter is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribeDevice;

impl Request for DescribeDevice {
    type Reply = AdapterFacts;
    const LANE: Lane = Lane::Control;
}

/// Creates every buffer of the plan, in place of those of any model before.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateModel {
    /// What to run.
    pub program: Rc<Program>,
    /// Its buffers.
    pub plan: Rc<GpuPlan>,
}

impl Request for CreateModel {
    type Reply = Result<(), DeviceError>;
}

/// Uploads whole rows of a matrix, in file format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadMatrix {
    /// Which matrix.
    pub matrix: MatrixId,
    /// First row.
    pub first_row: u64,
    /// The rows, at most [`UPLOAD_BYTES_MAX`](crate::limits::UPLOAD_BYTES_MAX) bytes.
    pub bytes: SharedBytes,
}

impl Request for UploadMatrix {
    /// The bytes come back, so that their buffer can be filled again.
    type Reply = Result<SharedBytes, DeviceError>;
}

/// Uploads elements of a constant vector.
#[derive(Debug, Clone, PartialEq)]
pub struct UploadVector {
    /// Which vector.
    pub vector: VectorId,
    /// First element, within the vector.
    pub element_offset: u32,
    /// The elements.
    pub values: Vec<f32>,
}

impl Request for UploadVector {
    type Reply = Result<(), DeviceError>;
}

/// Creates the pipelines of prompts and plain decoding, and compares the two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilePipelines;

impl Request for CompilePipelines {
    /// What prompts must not use: then they are evaluated token by token.
    type Reply = Result<Option<Quarantined>, DeviceError>;
}

/// Times choosing a token in the way of the run before. Nothing of that run is left on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasureChoice;

impl Request for MeasureChoice {
    /// Nanoseconds for a row of logits.
    type Reply = Result<u64, DeviceError>;
}

/// Destroys the model's buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropModel;

impl Request for DropModel {
    type Reply = ();
}

/// Opens the device again after it was lost; what was on it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReopenDevice;

impl Request for ReopenDevice {
    /// The adapter that was found.
    type Reply = Result<AdapterFacts, DeviceError>;
}

/// Numbers the runs of an engine, so that an end which overtakes its beginning still ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RunId(pub u64);

/// Evaluates a prompt from `base` on and decodes until the control block says that the request ended. What
/// happens is told as [`RunEvent`]s on a stream that travels beside the message; the answer comes when the
/// run is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeginDecode {
    /// When it was asked for, by the engine's clock; `None` when it measures what windows cost.
    pub asked_us: Option<u64>,
    /// Greater than that of every run before.
    pub run: RunId,
    /// Start of the control block.
    pub setup: RequestSetup,
    /// Position of the first of `tokens`: what lies before is in the cache.
    pub base: u32,
    /// Prompt tokens to evaluate, at least one.
    pub tokens: Rc<[u32]>,
    /// Tokens per prompt batch.
    pub chunk_tokens: u32,
    /// Windows submitted before the oldest is read, at most
    /// [`WINDOWS_IN_FLIGHT`](crate::control::WINDOWS_IN_FLIGHT).
    pub windows_in_flight: u32,
    /// Which widths the plan may ask for; their pipelines are compiled first.
    pub width: WidthPolicy,
}

impl BeginDecode {
    /// Prompt batches that choose no token, and so do without the head: all but the last.
    pub fn headless_batches(&self) -> usize {
        self.tokens.len().div_ceil(self.chunk_tokens.max(1) as usize).saturating_sub(1)
    }
}

impl Request for BeginDecode {
    type Reply = Result<RunOver, DeviceError>;
}

/// A run came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunOver {
    /// What it found that must not be used; it went on without.
    pub quarantined: Vec<Quarantined>,
}

/// What a run whose weights stream wants of the pager; told on a stream that travels beside [`BeginDecode`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Demand {
    /// Pages from this one on in the order of a pass, over and over. The first demand of every run.
    Pages {
        /// The first of them.
        from: usize,
    },
    /// The rows of the embedding table of these tokens.
    Rows(Vec<u32>),
}

/// Uploads rows of the page that a run's ring takes next. Answered when they are on their way, which waits
/// for a free slot; at once when the run is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRows {
    /// For which run.
    pub run: RunId,
    /// The rows.
    pub rows: UploadMatrix,
}

impl Request for StreamRows {
    type Reply = Result<(), DeviceError>;
}

/// Uploads the embedding rows that a run demanded, in the order of its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatherRows {
    /// For which run.
    pub run: RunId,
    /// The rows, in file format.
    pub bytes: SharedBytes,
}

impl Request for GatherRows {
    type Reply = Result<(), DeviceError>;
}

/// Submits nothing more for a run, or for any before it; windows in flight are still reported, a pass breaks
/// off at its next page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndDecode {
    /// Which run.
    pub run: RunId,
}

impl Request for EndDecode {
    type Reply = ();
    const LANE: Lane = Lane::Control;
}

/// Submits nothing more for a run, or for any before it, after the pass or the windows under way, which are
/// finished and reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseDecode {
    /// Which run.
    pub run: RunId,
}

impl Request for PauseDecode {
    type Reply = ();
    const LANE: Lane = Lane::Control;
}

/// What a run tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEvent {
    /// A pass whose weights stream is this far; left out when the engine cannot keep up.
    PassAdvanced {
        /// Pages of it that are submitted.
        done: u32,
        /// Pages in all.
        total: u32,
    },
    /// A prompt batch is in the cache.
    PromptEvaluated {
        /// Prompt tokens of the batch.
        tokens: u32,
        /// The last batch also chooses the first token.
        report: WindowReport,
        /// Microseconds, as in [`ObserveWindow`](super::controller::ObserveWindow).
        elapsed_us: u64,
    },
    /// A window of steps is done.
    WindowCompleted {
        /// Steps it held, those after the end included.
        steps: u32,
        /// What came of it.
        report: WindowReport,
        /// Microseconds, as in [`ObserveWindow`](super::controller::ObserveWindow).
        elapsed_us: u64,
    },
}
