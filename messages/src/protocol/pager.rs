//! The pager opens a model file, plans its memory and brings its weights to the device.
//!
//! The byte sources and the file's metadata travel beside these messages.

use std::rc::Rc;

use super::Request;
use crate::device::AdapterFacts;
use crate::error::LoadError;
use crate::plan::{GpuPlan, KvFormat};
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
    /// Cache format.
    pub kv_format: KvFormat,
    /// Most bytes on the device.
    pub budget_bytes: u64,
}

impl Request for PlanResidency {
    type Reply = Result<Rc<GpuPlan>, LoadError>;
}

/// Creates the planned buffers, uploads all weights and compiles the pipelines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceWeights;

/// The answer to [`PlaceWeights`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightsPlaced {
    /// Bytes read from the files.
    pub read_bytes: u64,
    /// Most bytes that were on the device at once.
    pub peak_bytes: u64,
}

impl Request for PlaceWeights {
    type Reply = Result<WeightsPlaced, LoadError>;
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
