//! How far the context may have grown: what the host knows without waiting for the device.

use std::cell::Cell;

/// An upper bound of the committed length.
#[derive(Debug, Default)]
pub(super) struct CommittedBound {
    /// Committed as the last report that was read says.
    confirmed: Cell<u32>,
    /// Most tokens that submissions not yet read may commit.
    in_flight: Cell<u32>,
}

impl CommittedBound {
    /// A prompt ends here, and nothing is in flight.
    pub(super) fn reset(&self, committed: u32) {
        self.confirmed.set(committed);
        self.in_flight.set(0);
    }

    /// The bound before anything further is submitted.
    pub(super) fn get(&self) -> u32 {
        self.confirmed.get() + self.in_flight.get()
    }

    /// A submission may commit this many tokens.
    pub(super) fn submit(&self, tokens: u32) {
        self.in_flight.set(self.in_flight.get() + tokens);
    }

    /// The oldest of those has been read.
    pub(super) fn confirm(&self, committed: u32, tokens: u32) {
        self.confirmed.set(committed);
        self.in_flight.set(self.in_flight.get().saturating_sub(tokens));
    }
}
