//! Where the bytes of a model come from: a file, a blob, a range of an address.

use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use fanlight_messages::error::SourceError;
use fanlight_models::gguf::model_file::shard_names;

/// Bytes that can be read at any offset. Hosts implement it.
#[allow(async_fn_in_trait, reason = "nothing here is Send: an engine lives on one thread")]
pub trait ByteSource {
    /// Length in bytes.
    fn len(&self) -> u64;

    /// True when it has no byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` from `offset` on, wholly or not at all.
    ///
    /// # Errors
    /// When the platform fails or the bytes are not there.
    async fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SourceError>;

    /// The same with a buffer that may travel, to a thread that reads for instance; it comes back filled.
    /// Reads ahead are left alone once they have begun: they must go on without being polled, and none may
    /// keep another from going on.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    async fn read_into(&self, offset: u64, mut buffer: Vec<u8>) -> Result<Vec<u8>, SourceError> {
        self.read_at(offset, &mut buffer).await?;
        Ok(buffer)
    }
}

/// A file in memory.
#[derive(Debug, Clone)]
pub struct MemorySource(Rc<[u8]>);

impl MemorySource {
    /// Of these bytes.
    pub fn new(bytes: impl Into<Rc<[u8]>>) -> Self {
        Self(bytes.into())
    }
}

impl ByteSource for MemorySource {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    async fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SourceError> {
        let (bytes, len) = (buffer.len() as u64, self.0.len() as u64);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = self.0.get(start..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(found.ok_or(SourceError::Short { offset, bytes, len })?);
        Ok(())
    }
}

trait ErasedSource {
    fn len(&self) -> u64;
    fn read_at<'a>(
        &'a self,
        offset: u64,
        buffer: &'a mut [u8],
    ) -> LocalBoxFuture<'a, Result<(), SourceError>>;
    fn read_into(&self, offset: u64, buffer: Vec<u8>) -> LocalBoxFuture<'_, Result<Vec<u8>, SourceError>>;
}

impl<S: ByteSource> ErasedSource for S {
    fn len(&self) -> u64 {
        ByteSource::len(self)
    }
    fn read_at<'a>(
        &'a self,
        offset: u64,
        buffer: &'a mut [u8],
    ) -> LocalBoxFuture<'a, Result<(), SourceError>> {
        ByteSource::read_at(self, offset, buffer).boxed_local()
    }
    fn read_into(&self, offset: u64, buffer: Vec<u8>) -> LocalBoxFuture<'_, Result<Vec<u8>, SourceError>> {
        ByteSource::read_into(self, offset, buffer).boxed_local()
    }
}

/// Names of all files of the model that a file of this name belongs to, in order: the name itself unless it
/// is that of a part, such as `m-00001-of-00003.gguf`.
pub fn part_names(name: &str) -> Vec<String> {
    shard_names(name).unwrap_or_else(|| vec![name.to_owned()])
}

/// A named source of any kind; clones share it.
#[derive(Clone)]
pub struct NamedSource {
    /// File name, which for split files tells the parts.
    pub name: String,
    source: Rc<dyn ErasedSource>,
}

impl NamedSource {
    /// Gives a source its name.
    pub fn new(name: impl Into<String>, source: impl ByteSource + 'static) -> Self {
        Self { name: name.into(), source: Rc::new(source) }
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.source.len()
    }

    /// True when it has no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// [`SourceError::Short`] for a range that ends behind the source, without asking it; else what it says.
    pub async fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SourceError> {
        self.check(offset, buffer.len() as u64)?;
        self.source.read_at(offset, buffer).await
    }

    /// The same with a buffer that comes back filled.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub async fn read_into(&self, offset: u64, buffer: Vec<u8>) -> Result<Vec<u8>, SourceError> {
        let bytes = buffer.len() as u64;
        self.check(offset, bytes)?;
        let filled = self.source.read_into(offset, buffer).await?;
        if filled.len() as u64 != bytes {
            return Err(SourceError::Short { offset, bytes, len: offset + filled.len() as u64 });
        }
        Ok(filled)
    }

    fn check(&self, offset: u64, bytes: u64) -> Result<(), SourceError> {
        let len = self.len();
        if offset.checked_add(bytes).is_none_or(|end| end > len) {
            return Err(SourceError::Short { offset, bytes, len });
        }
        Ok(())
    }
}
