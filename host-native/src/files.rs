//! Model files on disk as byte sources: a thread per file reads, so that the engine's thread never waits for
//! a disk.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result, bail};
use futures::channel::{mpsc, oneshot};
use futures::executor::block_on;
use futures::{SinkExt, StreamExt};

use fanlight_actors::source::{ByteSource, NamedSource, part_names};
use fanlight_messages::error::SourceError;

/// Reads that wait for the thread: the next one is handed over while one is under way.
const READS_WAITING: usize = 1;

/// A read on its way to the thread.
struct ReadJob {
    offset: u64,
    bytes: usize,
    done: oneshot::Sender<std::io::Result<Vec<u8>>>,
}

/// A file that a thread of its own reads. The thread ends with the source.
struct FileSource {
    len: u64,
    jobs: mpsc::Sender<ReadJob>,
}

impl FileSource {
    fn open(path: &Path) -> Result<Self> {
        let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let metadata = file.metadata().with_context(|| format!("cannot read {}", path.display()))?;
        if !metadata.is_file() {
            bail!("{} is not a file: name a model file (GGUF)", path.display());
        }
        let (jobs, mut queue) = mpsc::channel::<ReadJob>(READS_WAITING);
        std::thread::Builder::new().name("file-read".into()).spawn(move || {
            while let Some(job) = block_on(queue.next()) {
                // An asker that gave up is no error.
                let _ = job.done.send(read(&mut file, job.offset, job.bytes));
            }
        })?;
        Ok(Self { len: metadata.len(), jobs })
    }
}

fn read(file: &mut File, offset: u64, bytes: usize) -> std::io::Result<Vec<u8>> {
    // The pager never asks for more than one landing buffer.
    let mut buffer = vec![0; bytes];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut buffer)?;
    Ok(buffer)
}

impl ByteSource for FileSource {
    fn len(&self) -> u64 {
        self.len
    }

    async fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SourceError> {
        let bytes = buffer.len();
        let failed = |reason: String| SourceError::Failed { offset, bytes: bytes as u64, reason };
        let (done, read) = oneshot::channel();
        let sent = self.jobs.clone().send(ReadJob { offset, bytes, done }).await;
        sent.map_err(|_| failed("the reading thread has ended".into()))?;
        let read = read.await.map_err(|_| failed("the reading thread has ended".into()))?;
        buffer.copy_from_slice(&read.map_err(|error| failed(error.to_string()))?);
        Ok(())
    }
}

/// Opens a model file, or all parts of a split model that it belongs to.
pub fn open_model(path: &Path) -> Result<Vec<NamedSource>> {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name else { bail!("{} does not name a file", path.display()) };
    let mut sources = Vec::new();
    for part in part_names(name) {
        let part_path = path.with_file_name(&part);
        sources.push(NamedSource::new(part, FileSource::open(&part_path)?));
    }
    Ok(sources)
}
