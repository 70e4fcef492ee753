//! The pager opens a model file, plans its memory and brings its weights to the device.
//!
//! The byte sources and the file's metadata travel beside these messages.

use std::rc::Rc;

use super::Request;
use super::submitter::{BeginDecode, RunOver};
use crate::device::{AdapterFacts, Quarantined};
use crate::error::{GenerateError, LoadError};
use crate::plan::{Budget, GpuPlan, KvFormat};
use crate::program::Program;

/// Reads the header and writes the program; no weight is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenModel;

/// The answer to [`OpenModel`].
#[derive(Debug, Clone, PartialEq)]
pub struct ModelOpened {
    /// What to run.
    pub program: Rc<Program>,
    /// Bytes of all files together.
    pub file_bytes: u64,
}

impl Request for OpenModel {
    type Reply = Result<ModelOpened, LoadError>;
}

/// Plans the memory of the opened model for the submitter's adapter; nothing is allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanResidency {
    /// Positions of the context.
    pub context_len: u32,
    /// Prompt tokens per batch.
    pub batch_tokens: u32,
    /// Cache format; `None` takes the device's default.
    pub kv_format: Option<KvFormat>,
    /// What the plan may take; `None` leaves all weights on the device.
    pub budget: Option<Budget>,
    /// Bytes of host memory that keep pages between passes.
    pub cache_bytes: u64,
}

impl Request for PlanResidency {
    type Reply = Result<ResidencyPlanned, LoadError>;
}

/// The answer to [`PlanResidency`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResidencyPlanned {
    /// The plan.
    pub plan: Rc<GpuPlan>,
    /// True when the device has refused a larger one.
    pub was_reduced: bool,
}

/// Creates the planned buffers, uploads the weights that stay and compiles the pipelines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceWeights;

/// The answer to [`PlaceWeights`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightsPlaced {
    /// Bytes read from the files.
    pub read_bytes: u64,
    /// Most bytes that were on the device at once.
    pub peak_bytes: u64,
    /// What prompts must not use.
    pub quarantined: Option<Quarantined>,
}

impl Request for PlaceWeights {
    type Reply = Result<WeightsPlaced, LoadError>;
}

/// Runs a request whose weights stream: begins it at the submitter and brings it the pages that it needs. The
/// stream of its events travels beside the message; the answer comes when the run is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamDecode(pub BeginDecode);

impl Request for StreamDecode {
    type Reply = Result<RunOver, GenerateError>;
}

/// Brings the placed model back after its device was lost: opens a device, creates the planned buffers and
/// uploads all weights again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreModel;

/// The answer to [`RestoreModel`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRestored {
    /// Whether adapter and driver are those of before: only then equal bits are promised.
    pub same_adapter: bool,
    /// The adapter.
    pub adapter: AdapterFacts,
    /// What prompts must not use there.
    pub quarantined: Option<Quarantined>,
}

impl Request for RestoreModel {
    type Reply = Result<ModelRestored, LoadError>;
}

/// Destroys what the model holds on the device and forgets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseModel;

impl Request for CloseModel {
    type Reply = Result<(), LoadError>;
}
