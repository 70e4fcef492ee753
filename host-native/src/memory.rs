//! The session memory in a file. Several runs may share it: a lock beside it lets one write at a time, and a
//! rename makes every write whole.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fanlight_actors::memory::MemoryStorage;
use fanlight_drafter::session::STORE_BYTES_MAX;
use fanlight_messages::protocol::memory::MemoryKey;
use futures_timer::Delay;

/// How often a lock that another run holds is tried: it writes for milliseconds, so two seconds are long.
const LOCK_TRIES: u32 = 100;
/// Between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A file of session memory; without a path nothing is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFile(Option<PathBuf>);

impl MemoryFile {
    /// At a path.
    pub fn new(path: Option<&Path>) -> Self {
        Self(path.map(Path::to_owned))
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// The path with something behind its name.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// At most one byte more than the largest store; `None` where there is no file.
fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed(path))?,
    };
    if !file.metadata().map_err(failed(path))?.is_file() {
        return Err(format!("{} is not a file", path.display()));
    }
    let mut bytes = Vec::new();
    file.take(STORE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed(path))?;
    Ok(Some(bytes))
}

/// A lock that ends with the returned file.
async fn lock(path: &Path) -> Result<File, String> {
    let path = beside(path, ".lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(failed(&path))?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => Delay::new(LOCK_PAUSE).await,
            Err(TryLockError::Error(error)) => return Err(failed(&path)(error)),
        }
    }
    Err(format!("{}: another program holds the lock", path.display()))
}

impl MemoryStorage for MemoryFile {
    async fn read(&self, _key: MemoryKey) -> Result<Option<Vec<u8>>, String> {
        self.0.as_deref().map_or(Ok(None), read)
    }

    async fn update(
        &self,
        _key: MemoryKey,
        change: impl FnOnce(Option<&[u8]>) -> Vec<u8>,
    ) -> Result<(), String> {
        self.replace(change).await
    }

    async fn update_all(&self, change: impl FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<(), String> {
        self.replace(change).await
    }
}

impl MemoryFile {
    async fn replace(&self, change: impl FnOnce(Option<&[u8]>) -> Vec<u8>) -> Result<(), String> {
        let Some(path) = self.0.as_deref() else {
            change(None);
            return Ok(());
        };
        let _lock = lock(path).await?;
        let stored = read(path)?;
        let new = beside(path, ".new");
        fs::write(&new, change(stored.as_deref())).map_err(failed(&new))?;
        fs::rename(&new, path).map_err(|error| {
            // What is left is of no use to anyone; that it stays is no second failure.
            let _ = fs::remove_file(&new);
            failed(path)(error)
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    const KEY: MemoryKey = MemoryKey { tokenizer: [1; 16], vocabulary_len: 100 };

    fn path(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("fanlight-{}-{name}", std::process::id()));
        for ending in ["", ".lock", ".new"] {
            let _ = fs::remove_file(beside(&path, ending));
        }
        path
    }

    #[test]
    fn writers_take_turns_and_nothing_is_lost() {
        let path = path("turns");
        let add = |byte: u8| {
            let file = MemoryFile::new(Some(&path));
            move || {
                for _ in 0..20 {
                    let append = |stored: Option<&[u8]>| [stored.unwrap_or_default(), &[byte]].concat();
                    block_on(file.update(KEY, append)).unwrap();
                }
            }
        };
        std::thread::scope(|scope| {
            [1, 2, 3].into_iter().for_each(|byte| drop(scope.spawn(add(byte))));
        });
        let bytes = block_on(MemoryFile::new(Some(&path)).read(KEY)).unwrap().unwrap();
        for byte in [1, 2, 3] {
            assert_eq!(bytes.iter().filter(|b| **b == byte).count(), 20, "{bytes:?}");
        }
    }

    #[test]
    fn a_lock_that_is_held_is_an_error_and_no_endless_wait() {
        let path = path("held");
        let held = block_on(lock(&path)).unwrap();
        let file = MemoryFile::new(Some(&path));
        let refused = block_on(file.update(KEY, |_| vec![1])).unwrap_err();
        assert!(refused.contains("another program holds the lock"), "{refused}");
        drop(held);
        block_on(file.update(KEY, |_| vec![1])).unwrap();
        assert_eq!(block_on(file.read(KEY)).unwrap(), Some(vec![1]));
        // More than any store is not read whole.
        fs::write(&path, vec![0; 2 * STORE_BYTES_MAX]).unwrap();
        assert_eq!(block_on(file.read(KEY)).unwrap().unwrap().len(), STORE_BYTES_MAX + 1);
        assert!(block_on(MemoryFile::new(Some(&std::env::temp_dir())).read(KEY)).is_err(), "a folder");
    }
}
