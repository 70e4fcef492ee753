//! Model files on disk as byte sources: threads read, so that the engine's thread never waits for a disk, and
//! several at once, which is what a fast disk wants.

use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail};
use futures::channel::oneshot;

use fanlight_actors::source::{ByteSource, NamedSource, part_names};
use fanlight_messages::error::SourceError;
use fanlight_messages::limits::READS_IN_FLIGHT;

use crate::library::resolve;

/// Reads that wait for a thread: pages and embedding rows of a pass, and those of a load. A place is always
/// free: a read that waited for one while nobody polls it would keep the place from one that is awaited.
const READS_WAITING: usize = 3 * READS_IN_FLIGHT;

/// A read on its way to a thread.
struct ReadJob {
    offset: u64,
    buffer: Vec<u8>,
    done: oneshot::Sender<std::io::Result<Vec<u8>>>,
}

/// How bytes leave the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Through the cache of the operating system.
    Cached,
    /// Past it: what is read once a pass leaves no room there for anything else (Linux).
    Direct,
}

/// A file that threads of its own read. They end with the source.
struct FileSource {
    len: u64,
    jobs: SyncSender<ReadJob>,
}

impl FileSource {
    fn open(path: &Path, reads: Reads) -> Result<Self> {
        let opened = match reads {
            Reads::Cached => File::open(path),
            Reads::Direct => direct::open(path),
        };
        let file = opened.with_context(|| format!("cannot open {}", path.display()))?;
        let metadata = file.metadata().with_context(|| format!("cannot read {}", path.display()))?;
        if !metadata.is_file() {
            bail!("{} is not a file: name a model file (GGUF)", path.display());
        }
        let file = Arc::new(file);
        let (jobs, queue) = sync_channel(READS_WAITING);
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..READS_IN_FLIGHT {
            let (file, queue) = (file.clone(), queue.clone());
            std::thread::Builder::new()
                .name("file-read".into())
                .spawn(move || serve(&file, reads, &queue))?;
        }
        Ok(Self { len: metadata.len(), jobs })
    }
}

fn serve(file: &File, reads: Reads, queue: &Mutex<Receiver<ReadJob>>) {
    let mut aligned = direct::Buffer::default();
    // A thread that waits for a job keeps the others waiting for their turn, not for the job's end.
    let next = || queue.lock().ok()?.recv().ok();
    while let Some(ReadJob { offset, mut buffer, done }) = next() {
        let read = match reads {
            Reads::Cached => read_exact_at(file, &mut buffer, offset),
            Reads::Direct => aligned.read_exact_at(file, &mut buffer, offset),
        };
        let read = read.map(|()| buffer);
        // An asker that gave up is no error.
        let _ = done.send(read);
    }
}

/// Reads past the operating system's cache. Offset, length and memory must then be multiples of a block.
mod direct {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::path::Path;

    /// A multiple of every disk's block.
    const BLOCK: usize = 4096;
    /// Bytes of one read: enough that the disk is never idle between two.
    const STRIDE: usize = 4 << 20;

    #[cfg(target_os = "linux")]
    pub fn open(path: &Path) -> io::Result<File> {
        use std::os::unix::fs::OpenOptionsExt;
        OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path)
    }

    #[cfg(not(target_os = "linux"))]
    pub fn open(_: &Path) -> io::Result<File> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "direct reads need Linux: leave out --direct"))
    }

    /// Memory of a stride that starts at a multiple of a block.
    #[derive(Default)]
    pub struct Buffer(Vec<u8>);

    impl Buffer {
        /// Fills `buffer` from `offset` on.
        pub fn read_exact_at(&mut self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
            self.0.resize(STRIDE + BLOCK, 0);
            let start = self.0.as_ptr().align_offset(BLOCK);
            let aligned = &mut self.0[start..start + STRIDE];
            let mut filled = 0;
            while filled < buffer.len() {
                let at = offset + filled as u64;
                let skipped = (at % BLOCK as u64) as usize;
                let wanted = (skipped + buffer.len() - filled).next_multiple_of(BLOCK).min(STRIDE);
                let read = super::read_some_at(file, &mut aligned[..wanted], at - skipped as u64)?;
                if read <= skipped {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                let bytes = (read - skipped).min(buffer.len() - filled);
                buffer[filled..filled + bytes].copy_from_slice(&aligned[skipped..skipped + bytes]);
                filled += bytes;
            }
            Ok(())
        }
    }
}

#[cfg(unix)]
fn read_some_at(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_some_at(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    while !buffer.is_empty() {
        match read_some_at(file, buffer, offset)? {
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
        let sent = self.jobs.try_send(ReadJob { offset, buffer, done });
        sent.map_err(|error| failed(format!("more than {READS_WAITING} reads at once ({error})")))?;
        let read = read.await.map_err(|_| failed("the reading thread has ended".into()))?;
        read.map_err(|error| failed(error.to_string()))
    }
}

/// Opens a model file, or all parts of a split model that it belongs to; or the model that a name of the
/// library leads to.
pub fn open_model(model: &Path, reads: Reads) -> Result<Vec<NamedSource>> {
    let path = &resolve(model)?;
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name else { bail!("{} does not name a file", path.display()) };
    let mut sources = Vec::new();
    for part in part_names(name) {
        let part_path = path.with_file_name(&part);
        sources.push(NamedSource::new(part, FileSource::open(&part_path, reads)?));
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use futures::FutureExt;
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn both_ways_of_reading_give_the_same_bytes_and_the_same_end() {
        let bytes: Vec<u8> = (0..9_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let path = std::env::temp_dir().join(format!("fanlight-reads-{}.bin", std::process::id()));
        File::create(&path).unwrap().write_all(&bytes).unwrap();
        for reads in [Reads::Cached, Reads::Direct] {
            let source = FileSource::open(&path, reads).unwrap();
            assert_eq!(source.len(), bytes.len() as u64);
            for (offset, len) in [(0, 1), (4095, 2), (1, 8_999_999), (123_457, 5 << 20), (8_999_990, 10)] {
                let read = block_on(source.read_into(offset as u64, vec![0; len])).unwrap();
                assert!(read == bytes[offset..offset + len], "{reads:?}, {len} bytes at {offset}");
            }
            // Reads that began and are left alone do not keep others from ending.
            let begin = |_| {
                let mut read = Box::pin(source.read_into(0, vec![0; 8 << 20]));
                let _ = read.as_mut().now_or_never();
                read
            };
            let left_alone: Vec<_> = (0..2 * READS_IN_FLIGHT).map(begin).collect();
            for _ in 0..8 {
                let reads = [0, 5_000_000].map(|offset| source.read_into(offset, vec![0; 1000]));
                for read in block_on(futures::future::join_all(reads)) {
                    assert_eq!(read.unwrap().len(), 1000);
                }
            }
            drop(left_alone);
            let error = block_on(source.read_into(8_999_990, vec![0; 11])).unwrap_err();
            assert!(matches!(error, SourceError::Failed { bytes: 11, .. }), "{error}");
        }
        std::fs::remove_file(path).unwrap();
    }
}
