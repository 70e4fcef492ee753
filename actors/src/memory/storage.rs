//! Where a host keeps the session memory: a file, a record of the browser's database, or nowhere.

use std::future::Future;

/// A host's store of one memory. Several engines may share it.
pub trait MemoryStorage: 'static {
    /// What is kept, `None` where nothing is; of anything longer than
    /// [`STORE_BYTES_MAX`](fanlight_drafter::session::STORE_BYTES_MAX), one byte more than that at least.
    ///
    /// # Errors
    /// What the platform says.
    fn read(&self) -> impl Future<Output = Result<Option<Vec<u8>>, String>>;

    /// Replaces what is kept by what `change` makes of it, whole or not at all. No other engine writes in
    /// between; one that stays in the way is an error, not an endless wait.
    ///
    /// # Errors
    /// What the platform says.
    fn update(
        &self,
        change: impl FnOnce(Option<&[u8]>) -> Vec<u8>,
    ) -> impl Future<Output = Result<(), String>>;
}

/// Keeps nothing: a host without a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoStorage;

impl MemoryStorage for NoStorage {
    async fn read(&self) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }

    async fn update(&self, change: impl FnOnce(Option<&[u8]>) -> Vec<u8>) -> Result<(), String> {
        change(None);
        Ok(())
    }
}
