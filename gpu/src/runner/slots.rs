//! Readback slots: host-visible copies of the control block, lent to one report at a time.

use std::cell::Cell;
use std::rc::Rc;

use crate::device::{GpuError, Readback};

/// The slots of a model.
#[derive(Debug)]
pub(super) struct Slots(Vec<Rc<Cell<bool>>>);

impl Slots {
    pub(super) fn new(count: u32) -> Self {
        Self((0..count).map(|_| Rc::default()).collect())
    }

    /// A slot that nothing is read from.
    pub(super) fn lease(&self) -> Result<Lease, GpuError> {
        let free = (0u32..).zip(&self.0).find(|(_, is_lent)| !is_lent.get());
        let (slot, is_lent) = free.ok_or(GpuError::NoReadbackSlot { slots: self.0.len() })?;
        is_lent.set(true);
        Ok(Lease { slot, is_lent: is_lent.clone() })
    }
}

/// A slot that is lent; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Lease {
    slot: u32,
    is_lent: Rc<Cell<bool>>,
}

impl Lease {
    /// Which.
    pub(super) fn slot(&self) -> u32 {
        self.slot
    }

    /// Reads from the slot, which is given back when the words are there or nobody wants them any more:
    /// first the buffer is unmapped, then it is free.
    pub(super) async fn hold(self, readback: Readback) -> Result<Vec<u32>, GpuError> {
        let words = readback.await;
        drop(self);
        words
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.is_lent.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_lent_once_and_comes_back_by_itself() {
        let slots = Slots::new(2);
        let (first, second) = (slots.lease().unwrap(), slots.lease().unwrap());
        assert_eq!((first.slot(), second.slot()), (0, 1));
        assert_eq!(slots.lease().err(), Some(GpuError::NoReadbackSlot { slots: 2 }));
        drop(first);
        assert_eq!(slots.lease().map(|lease| lease.slot()), Ok(0));
    }
}
