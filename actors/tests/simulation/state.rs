//! What tests set on the device of paper, and look at.

use std::collections::{BTreeMap, BTreeSet};

use fanlight_messages::device::{Purpose, Quarantined};
use fanlight_messages::draft::Width;
use fanlight_messages::error::DeviceError;
use fanlight_messages::limits::READBACK_SLOTS;
use fanlight_messages::program::{MatrixId, VectorId};

use crate::device::PaperBackend;

/// What goes wrong, and at which submission, counted from 0 over the life of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The submission is refused when it is made.
    Refuse,
    /// The device is lost while it runs.
    Lose,
    /// It computes a value that is not a number.
    Poison,
}

/// What tests look at and set.
pub struct DeviceState {
    /// Faults by submission.
    pub faults: BTreeMap<u64, Fault>,
    /// Of a thousand tokens, how many end a reply.
    pub end_per_mille: u64,
    /// Calls of the engine so far, and which of them fail, counted from 1.
    pub calls: u64,
    pub call_faults: BTreeMap<u64, DeviceError>,
    /// What was called since the test forgot it.
    pub called: BTreeSet<&'static str>,
    /// Turns of the world that compiling a pipeline takes.
    pub compile_turns: u32,
    /// An error was reported that nobody waited for: it must be opened again.
    pub is_sick: bool,
    /// Slots that are read back to.
    pub slots_lent: u32,
    /// Submissions made.
    pub submissions: u64,
    /// Windows among them.
    pub windows: u64,
    /// Submitted and not yet read.
    pub in_flight: usize,
    /// Most of them at once.
    pub in_flight_max: usize,
    /// Models that exist.
    pub models: usize,
    /// Most of them at once.
    pub models_max: usize,
    /// Uploaded rows by matrix and first row.
    pub matrices: BTreeMap<(MatrixId, u64), Vec<u8>>,
    /// Uploaded elements by vector and offset.
    pub vectors: BTreeMap<(VectorId, u32), Vec<f32>>,
    /// Bytes that a model may take; more are refused.
    pub memory_bytes: u64,
    /// Bytes of all buffers that exist, and most of them at once.
    pub held_bytes: u64,
    pub held_bytes_max: u64,
    /// The device does not come back when it was lost.
    pub is_gone: bool,
    /// Times it was opened again.
    pub reopened: u32,
    /// Name of the adapter that comes back; empty for the same.
    pub other_name: String,
    /// Bytes of a binding.
    pub binding_bytes_max: u64,
    /// It says that it is no processor.
    pub is_gpu: bool,
    /// Microseconds of a step, and of a prompt token.
    pub step_us: u64,
    pub prompt_token_us: u64,
    /// Microseconds that the parts of each submission kept the device.
    pub part_us: Vec<u64>,
    /// Tokens of the prompt batches so far.
    pub batches: Vec<usize>,
    /// Pipelines compiled so far, by rows of a width.
    pub pipelines: BTreeMap<u32, u32>,
    /// Widths of the windows submitted so far.
    pub widths: Vec<Width>,
    /// Times that choosing a token was measured, and whether the device is lost over it.
    pub choices_timed: u32,
    pub is_choice_lost: bool,
    /// What gives other bits than plain decoding; it is never to be used.
    pub wrong: Vec<Purpose>,
}

impl DeviceState {
    /// What is wrong with a purpose.
    pub fn quarantined(&self, purpose: Purpose) -> Option<Quarantined> {
        self.wrong.contains(&purpose).then(|| Quarantined { purpose, evidence: "by the test".into() })
    }
}

/// Nanoseconds that the device of paper needs to choose a token.
pub const CHOICE_NS: u64 = 14_000;
/// Pipelines that a width of the device of paper needs.
pub const PIPELINES: u32 = 3;

impl Default for DeviceState {
    fn default() -> Self {
        Self {
            faults: BTreeMap::new(),
            end_per_mille: 0,
            calls: 0,
            call_faults: BTreeMap::new(),
            called: BTreeSet::new(),
            compile_turns: 1,
            is_sick: false,
            slots_lent: 0,
            submissions: 0,
            windows: 0,
            in_flight: 0,
            in_flight_max: 0,
            models: 0,
            models_max: 0,
            matrices: BTreeMap::new(),
            vectors: BTreeMap::new(),
            memory_bytes: u64::MAX,
            held_bytes: 0,
            held_bytes_max: 0,
            is_gone: false,
            reopened: 0,
            other_name: String::new(),
            binding_bytes_max: 128 << 20,
            is_gpu: false,
            step_us: 1_000,
            prompt_token_us: 100,
            part_us: Vec::new(),
            batches: Vec::new(),
            pipelines: BTreeMap::new(),
            widths: Vec::new(),
            choices_timed: 0,
            is_choice_lost: false,
            wrong: Vec::new(),
        }
    }
}

impl PaperBackend {
    /// Counts a call of the engine, and fails where the test says so.
    pub fn call(&self, what: &'static str) -> Result<(), DeviceError> {
        let mut state = self.state.borrow_mut();
        state.calls += 1;
        state.called.insert(what);
        let call = state.calls;
        state.call_faults.remove(&call).map_or(Ok(()), Err)
    }

    /// A slot to read back to, until it is dropped.
    pub fn slot(&self) -> Result<Slot, DeviceError> {
        let mut state = self.state.borrow_mut();
        if state.slots_lent == READBACK_SLOTS {
            let reason = format!("all {READBACK_SLOTS} readback slots are in flight");
            return Err(DeviceError::Refused { phase: "reading back".into(), reason });
        }
        state.slots_lent += 1;
        Ok(Slot(self.clone()))
    }
}

/// A slot that is read back to; its buffer is mapped as long as it exists.
pub struct Slot(PaperBackend);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.state.borrow_mut().slots_lent -= 1;
    }
}
