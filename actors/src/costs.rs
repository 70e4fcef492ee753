//! What was measured of a device, kept by the host from one visit to the next.

use std::future::Future;

use fanlight_messages::device::AdapterFacts;
use fanlight_messages::error::{CostRecordError, CostStoreError};
use fanlight_messages::protocol::engine::ModelLoaded;

/// Where a host keeps costs: a file natively, a database in a page.
pub trait CostStore {
    /// What was kept under this name, 16 hexadecimal digits; `None` when nothing was.
    ///
    /// # Errors
    /// [`CostStoreError::Store`] when the store cannot be read.
    fn read(&self, name: &str) -> impl Future<Output = Result<Option<Vec<u8>>, CostStoreError>>;

    /// Keeps a record of 64 bytes under this name, in place of the one before.
    ///
    /// # Errors
    /// [`CostStoreError::Store`] when the store cannot be written.
    fn write(&self, name: &str, record: &[u8]) -> impl Future<Output = Result<(), CostStoreError>>;
}

/// What came of looking costs up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recalled {
    /// Nothing was kept.
    Nothing,
    /// The controller starts with what was kept.
    Costs,
    /// What was kept is not used; the next record replaces it.
    Refused(CostRecordError),
}

/// What costs are kept under: adapter, model and build. The bytes on the device tell apart what was made of
/// one model, and plans of different context or cache format.
pub(crate) fn key(loaded: &ModelLoaded) -> String {
    let AdapterFacts { name: adapter, backend, driver, .. } = &loaded.adapter;
    let ModelLoaded { name, vocabulary_len, gpu_bytes, read_bytes, .. } = loaded;
    let build = env!("CARGO_PKG_VERSION");
    format!("{adapter}\n{backend}\n{driver}\n{name}\n{vocabulary_len} {gpu_bytes} {read_bytes}\n{build}")
}
