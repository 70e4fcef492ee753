//! Reads a submission's copy of the control buffer.

use std::cell::Cell;

use fanlight_messages::control::{
    ControlBlock, HASHES_WORD, RECORD_WORDS, RECORDS, RECORDS_WORD, RING_LEN, RING_WORD, StepRecord,
};
use fanlight_messages::device::WindowReport;

use crate::device::GpuError;

/// What the last report that was read told: rings are read from there on.
#[derive(Debug, Default)]
pub(super) struct Reported {
    ring_head: Cell<u32>,
    steps: Cell<u32>,
}

impl Reported {
    /// A request begins: both rings are empty.
    pub(super) fn reset(&self) {
        self.ring_head.set(0);
        self.steps.set(0);
    }

    /// The report in the words of the control buffer. Reports are taken in the order of their submissions.
    pub(super) fn take(&self, words: &[u32], dispatches: u32) -> Result<WindowReport, GpuError> {
        let control = ControlBlock::from_words(words)
            .ok_or_else(|| GpuError::Lost { reason: "the readback is too short".into() })?;
        let new_tokens = control.ring_head.wrapping_sub(self.ring_head.get());
        if new_tokens > RING_LEN || control.steps.wrapping_sub(self.steps.get()) > RECORDS {
            let reason = format!("the device reports {new_tokens} new tokens, its ring holds {RING_LEN}");
            return Err(GpuError::Lost { reason });
        }
        let ring = &words[RING_WORD as usize..];
        let hash_ring = &words[HASHES_WORD as usize..];
        let slots = || (self.ring_head.get()..control.ring_head).map(|t| (t % RING_LEN) as usize);
        let tokens = slots().map(|slot| ring[slot]).collect();
        let hashes = slots().map(|slot| hash_ring[slot]).collect();
        let records = &words[RECORDS_WORD as usize..];
        let step = |s: u32| {
            let at = (s % RECORDS * RECORD_WORDS) as usize;
            StepRecord::from_words([records[at], records[at + 1], records[at + 2]])
        };
        let steps = (self.steps.get()..control.steps).map(step).collect();
        self.ring_head.set(control.ring_head);
        self.steps.set(control.steps);
        Ok(WindowReport { control, tokens, hashes, steps, dispatches })
    }
}
