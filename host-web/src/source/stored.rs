//! A file at an address whose chunks the browser keeps: what is kept is not asked of the server again, and a
//! file that is kept whole needs no server.
//!
//! Where the chunks lie is the page's business (`sdk/src/storage.ts`). A chunk that the page does not hand
//! back whole is fetched; one that it cannot keep is used all the same.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::{LocalBoxFuture, Shared};
use js_sys::Uint8Array;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};

use fanlight_actors::kit::Latch;
use fanlight_actors::source::{ByteSource, NamedSource};
use fanlight_messages::error::SourceError;
use fanlight_messages::limits::READS_IN_FLIGHT;

use super::by_itself;
use super::http::{HttpError, HttpSource, part_addresses};
use crate::wire_model::Address;

/// The first bytes of every model file; what begins otherwise is not kept.
const MAGIC: &[u8] = b"GGUF";
/// Bytes per chunk: a hash costs 32 bytes, a lost chunk a second of a slow line.
const CHUNK_BYTES: u64 = 4 << 20;
/// Chunks in memory: each read has one on its way, and may share those at its two ends with its neighbours.
const CHUNKS_MAX: usize = 3 * READS_IN_FLIGHT;

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** Keeps chunks of files. Its functions do not reject: what cannot be kept is not kept. */
export interface ModelStorage {
    /** What is kept of the file at an address. */
    find(url: string): Promise<StoredFile | undefined>;
    /** Begins to keep a file, or goes on where the length and version are the same. */
    create(url: string, length: number, etag: string, chunkBytes: number): Promise<StoredFile | undefined>;
}
/** A file of which some chunks are kept. */
export interface StoredFile {
    readonly length: number;
    readonly chunkBytes: number;
    /** The version that the server named, or empty. */
    readonly etag: string;
    /** Whether every chunk is there. */
    readonly isComplete: boolean;
    /** The chunk, when it is there and as it was written. */
    read(index: number): Promise<Uint8Array | undefined>;
    write(index: number, bytes: Uint8Array): Promise<void>;
}
"#;

#[wasm_bindgen]
extern "C" {
    /// Keeps chunks of files.
    #[wasm_bindgen(typescript_type = "ModelStorage")]
    pub type ModelStorage;
    #[wasm_bindgen(method, catch)]
    async fn find(this: &ModelStorage, url: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    async fn create(
        this: &ModelStorage,
        url: &str,
        length: f64,
        etag: &str,
        chunk_bytes: f64,
    ) -> Result<JsValue, JsValue>;

    type StoredFile;
    #[wasm_bindgen(method, getter)]
    fn length(this: &StoredFile) -> f64;
    #[wasm_bindgen(method, getter, js_name = chunkBytes)]
    fn chunk_bytes(this: &StoredFile) -> f64;
    #[wasm_bindgen(method, getter)]
    fn etag(this: &StoredFile) -> String;
    #[wasm_bindgen(method, getter, js_name = isComplete)]
    fn is_complete(this: &StoredFile) -> bool;
    #[wasm_bindgen(method, catch)]
    async fn read(this: &StoredFile, index: u32) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    async fn write(this: &StoredFile, index: u32, bytes: Uint8Array) -> Result<JsValue, JsValue>;
}

/// A chunk on its way or there; clones share it.
type Chunk = Shared<LocalBoxFuture<'static, Result<Uint8Array, SourceError>>>;

/// A kept file as a source; clones share it.
#[derive(Clone)]
struct StoredSource {
    file: Rc<Kept>,
    /// Chunks on their way, and those of which a part has been used: reads begin and end within chunks, and
    /// each chunk is read or fetched once however many reads want it.
    chunks: Rc<RefCell<VecDeque<(u32, Chunk)>>>,
}

/// What is kept of a file and, until that is all of it, the server.
struct Kept {
    file: StoredFile,
    len: u64,
    address: Address,
    stop: Latch<bool>,
    server: RefCell<Option<HttpSource>>,
    /// False once the file turned out to be no model.
    is_worth_keeping: Cell<bool>,
}

impl Kept {
    async fn chunk(&self, index: u32) -> Result<Uint8Array, SourceError> {
        let offset = u64::from(index) * CHUNK_BYTES;
        let len = CHUNK_BYTES.min(self.len - offset);
        let kept = self.file.read(index).await.ok();
        let kept = kept.and_then(|value| value.dyn_into::<Uint8Array>().ok());
        match kept.filter(|bytes| u64::from(bytes.length()) == len) {
            Some(bytes) => Ok(bytes),
            None => self.fetch(index, offset, len).await,
        }
    }

    async fn fetch(&self, index: u32, offset: u64, len: u64) -> Result<Uint8Array, SourceError> {
        let server = self.server(offset, len).await?;
        let mut bytes = vec![0; len as usize];
        server.read_at(offset, &mut bytes).await?;
        if index == 0 && !bytes.starts_with(MAGIC) {
            self.is_worth_keeping.set(false);
        }
        let bytes = Uint8Array::from(bytes.as_slice());
        if self.is_worth_keeping.get() {
            // A chunk that cannot be kept was told to the page by the storage itself.
            let _ = self.file.write(index, bytes.clone()).await;
        }
        Ok(bytes)
    }

    /// The server, which must have the version that is kept.
    async fn server(&self, offset: u64, len: u64) -> Result<HttpSource, SourceError> {
        if let Some(server) = &*self.server.borrow() {
            return Ok(server.clone());
        }
        let failed = |reason| SourceError::Failed { offset, bytes: len, reason };
        let opened = HttpSource::open(&self.address, &self.stop).await;
        let server = opened.map_err(|error| failed(error.to_string()))?;
        if server.len() != self.len || server.etag().unwrap_or_default() != self.file.etag() {
            let now = server.len();
            let reason = format!(
                "a kept part is damaged, and the server has another version ({now} bytes now, {} kept): \
                 remove what is kept of it and load again",
                self.len
            );
            return Err(failed(reason));
        }
        self.server.replace(Some(server.clone()));
        Ok(server)
    }
}

impl StoredSource {
    fn new(file: StoredFile, address: Address, stop: &Latch<bool>, server: Option<HttpSource>) -> Self {
        let len = file.length() as u64;
        let (stop, server, is_worth_keeping) = (stop.clone(), RefCell::new(server), Cell::new(true));
        let file = Rc::new(Kept { file, len, address, stop, server, is_worth_keeping });
        Self { file, chunks: Rc::default() }
    }

    async fn chunk(&self, index: u32) -> Result<Uint8Array, SourceError> {
        let known = self.chunks.borrow().iter().find(|(at, _)| *at == index).map(|(_, chunk)| chunk.clone());
        let chunk = known.unwrap_or_else(|| {
            let file = self.file.clone();
            let chunk = async move { file.chunk(index).await }.boxed_local().shared();
            let mut chunks = self.chunks.borrow_mut();
            if chunks.len() == CHUNKS_MAX {
                chunks.pop_front();
            }
            chunks.push_back((index, chunk.clone()));
            chunk
        });
        let read = chunk.await;
        if read.is_err() {
            // It may be there the next time.
            self.forget(index);
        }
        read
    }

    fn forget(&self, index: u32) {
        self.chunks.borrow_mut().retain(|(at, _)| *at != index);
    }
}

impl ByteSource for StoredSource {
    fn len(&self) -> u64 {
        self.file.len
    }

    async fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SourceError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset + filled as u64;
            let (index, within) = ((at / CHUNK_BYTES) as u32, (at % CHUNK_BYTES) as u32);
            let chunk = self.chunk(index).await?;
            let count = ((chunk.length() - within) as usize).min(buffer.len() - filled);
            chunk.subarray(within, within + count as u32).copy_to(&mut buffer[filled..filled + count]);
            filled += count;
            if count == chunk.length() as usize {
                self.forget(index);
            }
        }
        Ok(())
    }

    async fn read_into(&self, offset: u64, buffer: Vec<u8>) -> Result<Vec<u8>, SourceError> {
        by_itself(self.clone(), offset, buffer).await
    }
}

async fn open_file(
    address: Address,
    storage: Option<&ModelStorage>,
    stop: &Latch<bool>,
    name: String,
) -> Result<NamedSource, HttpError> {
    let stored = |found: Result<JsValue, JsValue>| {
        let file = found.ok().filter(JsValue::is_object)?.unchecked_into::<StoredFile>();
        (file.chunk_bytes() as u64 == CHUNK_BYTES).then_some(file)
    };
    if let Some(storage) = storage
        && let Some(file) = stored(storage.find(&address.url).await)
        && file.is_complete()
    {
        return Ok(NamedSource::new(name, StoredSource::new(file, address, stop, None)));
    }
    let server = HttpSource::open(&address, stop).await?;
    let Some(storage) = storage else { return Ok(NamedSource::new(name, server)) };
    let etag = server.etag().unwrap_or_default();
    let created = storage.create(&address.url, server.len() as f64, etag, CHUNK_BYTES as f64).await;
    Ok(match stored(created) {
        Some(file) => NamedSource::new(name, StoredSource::new(file, address, stop, Some(server))),
        None => NamedSource::new(name, server),
    })
}

/// Opens the file at an address, or all parts of the split model that it belongs to, which lie beside it;
/// what `storage` keeps of them is taken from there, and what it does not is given to it.
///
/// # Errors
/// Any [`HttpError`].
pub async fn open_model(
    address: &Address,
    storage: Option<&ModelStorage>,
    stop: &Latch<bool>,
) -> Result<Vec<NamedSource>, HttpError> {
    let mut sources = Vec::new();
    for (name, address) in part_addresses(address)? {
        sources.push(open_file(address, storage, stop, name).await?);
    }
    Ok(sources)
}
