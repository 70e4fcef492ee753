//! Where a host keeps the session memory: a file, records of the browser's database, or nowhere.

use std::future::Future;

use fanlight_messages::protocol::memory::MemoryKey;

/// A host's store, of one memory or of one per tokenizer. Several engines may share it.
pub trait MemoryStorage: 'static {
    /// What is kept for a tokenizer, `None` where nothing is; of anything longer than
    /// [`STORE_BYTES_MAX`](fanlight_drafter::session::STORE_BYTES_MAX), one byte more than that at least. A
    /// store that holds one memory gives that one, of whichever tokenizer it is.
    ///
    /// # Errors
    /// What the platform says.
    fn read(&self, key: MemoryKey) -> impl Future<Output = Result<Option<Vec<u8>>, String>>;

    /// Replaces what is kept by what `change` makes of it, whole or not at all. No other engine writes in
    /// between; one that stays in the way is an error, not an endless wait.
    ///
    /// # Errors
    /// What the platform says.
    fn update(
        &self,
        key: MemoryKey,
        change: impl FnOnce(Option<&[u8]>) -> Vec<u8>,
    ) -> impl Future<Output = Result<(), String>>;

    /// The same with everything that is kept, of whichever tokenizer.
    ///
    /// # Errors
    /// What the platform says; some of it may have been replaced then.
    fn update_all(
        &self,
        change: impl FnMut(Option<&[u8]>) -> Vec<u8>,
    ) -> impl Future<Output = Result<(), String>>;
}

/// Keeps nothing: a host without a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoStorage;

impl MemoryStorage for NoStorage {
    async fn read(&self, _key: MemoryKey) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }

    async fn update(
        &self,
        _key: MemoryKey,
        change: impl FnOnce(Option<&[u8]>) -> Vec<u8>,
    ) -> Result<(), String> {
        change(None);
        Ok(())
    }

    async fn update_all(&self, _change: impl FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<(), String> {
        Ok(())
    }
}
