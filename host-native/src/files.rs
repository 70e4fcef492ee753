//! Model files on disk as byte sources: threads read, so that the engine's thread never waits for a disk, and
//! several at once, which is what a fast disk wants.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use async_channel::{Receiver, Sender};
use futures::channel::oneshot;

use fanlight_actors::source::{ByteSource, NamedSource, part_names};
use fanlight_messages::error::SourceError;
use fanlight_messages::limits::READS_IN_FLIGHT;

/// Reads that wait for a thread: the pager has no more under way than there are threads.
const READS_WAITING: usize = 1;

/// A read on its way to a thread.
struct ReadJob {
    offset: u64,
    buffer: Vec<u8>,
    done: oneshot::Sender<std::io::Result<Vec<u8>>>,
}

/// A file that threads of its own read. They end with the source.
struct FileSource {
    len: u64,
    jobs: Sender<ReadJob>,
}

impl FileSource {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let metadata = file.metadata().with_context(|| format!("cannot read {}", path.display()))?;
        if !metadata.is_file() {
            bail!("{} is not a file: name a model file (GGUF)", path.display());
        }
        let file = Arc::new(file);
        let (jobs, queue) = async_channel::bounded(READS_WAITING);
        for _ in 0..READS_IN_FLIGHT {
            let (file, queue) = (file.clone(), queue.clone());
            std::thread::Builder::new().name("file-read".into()).spawn(move || serve(&file, &queue))?;
        }
        Ok(Self { len: metadata.len(), jobs })
    }
}

fn serve(file: &File, queue: &Receiver<ReadJob>) {
    while let Ok(ReadJob { offset, mut buffer, done }) = queue.recv_blocking() {
        let read = read_exact_at(file, &mut buffer, offset).map(|()| buffer);
        // An asker that gave up is no error.
        let _ = done.send(read);
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => {
                buffer = &mut buffer[read..];
                offset += read as u64;
            }
        }
    }
    Ok(())
}

impl ByteSource for FileSource {
    fn len(&self) -> u64 {
        self.len
    }

    async fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SourceError> {
        buffer.copy_from_slice(&self.read_into(offset, vec![0; buffer.len()]).await?);
        Ok(())
    }

    async fn read_into(&self, offset: u64, buffer: Vec<u8>) -> Result<Vec<u8>, SourceError> {
        let bytes = buffer.len() as u64;
        let failed = |reason: String| SourceError::Failed { offset, bytes, reason };
        let (done, read) = oneshot::channel();
        let sent = self.jobs.send(ReadJob { offset, buffer, done }).await;
        sent.map_err(|_| failed("the reading threads have ended".into()))?;
        let read = read.await.map_err(|_| failed("the reading thread has ended".into()))?;
        read.map_err(|error| failed(error.to_string()))
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
