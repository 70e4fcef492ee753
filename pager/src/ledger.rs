//! One byte ledger for everything on the GPU: a buffer is entered before it is created.

use std::collections::BTreeMap;

use fanlight_messages::plan::BufferOwner;

use crate::LedgerError;

/// Who holds how many bytes, under a budget that is never exceeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    budget_bytes: u64,
    used_bytes: u64,
    peak_bytes: u64,
    held: BTreeMap<BufferOwner, u64>,
}

impl Ledger {
    /// An empty ledger.
    pub fn new(budget_bytes: u64) -> Self {
        Self { budget_bytes, used_bytes: 0, peak_bytes: 0, held: BTreeMap::new() }
    }

    /// Enters a buffer of `bytes` that is about to be created for `owner`.
    ///
    /// # Errors
    /// `Entered` when the owner holds a buffer, `OverBudget` when it does not fit; the ledger is then
    /// unchanged.
    pub fn enter(&mut self, owner: BufferOwner, bytes: u64) -> Result<(), LedgerError> {
        if let Some(&held_bytes) = self.held.get(&owner) {
            return Err(LedgerError::Entered { owner, held_bytes });
        }
        let used = self.used_bytes.checked_add(bytes).filter(|used| *used <= self.budget_bytes);
        let Some(used_bytes) = used else {
            return Err(LedgerError::OverBudget {
                owner,
                wanted_bytes: bytes,
                used_bytes: self.used_bytes,
                budget_bytes: self.budget_bytes,
            });
        };
        self.held.insert(owner, bytes);
        self.used_bytes = used_bytes;
        self.peak_bytes = self.peak_bytes.max(used_bytes);
        Ok(())
    }

    /// Takes out what `owner` holds, after its buffer was destroyed; returns the bytes.
    ///
    /// # Errors
    /// `NotEntered` when it holds nothing.
    pub fn release(&mut self, owner: BufferOwner) -> Result<u64, LedgerError> {
        let bytes = self.held.remove(&owner).ok_or(LedgerError::NotEntered { owner })?;
        self.used_bytes -= bytes;
        Ok(bytes)
    }

    /// Takes out everything, after the device was destroyed or lost. The peak stays.
    pub fn release_all(&mut self) {
        self.held.clear();
        self.used_bytes = 0;
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }
    /// Most bytes that were ever in use.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }
    /// The budget.
    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }
    /// Bytes that `owner` holds, 0 when it holds none.
    pub fn held_bytes(&self, owner: BufferOwner) -> u64 {
        self.held.get(&owner).copied().unwrap_or(0)
    }
    /// Who holds what, in the order of owners.
    pub fn entries(&self) -> impl Iterator<Item = (BufferOwner, u64)> + '_ {
        self.held.iter().map(|(owner, bytes)| (*owner, *bytes))
    }
}
