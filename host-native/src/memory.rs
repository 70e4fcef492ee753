//! The session memory in a file. Several runs may share it: a lock beside it lets one write at a time, and a
//! rename makes every write whole.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fanlight_actors::memory::MemoryStorage;
use fanlight_drafter::session::{STORE_BYTES_MAX, SessionMemory};
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

/// Refuses what is no session memory, so that no other file is ever written over. One that cannot be read
/// costs the memory and not the reply, which tells of it.
pub fn check(path: &Path) -> anyhow::Result<()> {
    let Ok(stored) = read(path) else { return Ok(()) };
    owner(path, stored.as_deref()).map(drop).map_err(anyhow::Error::msg)
}

/// Whose replies a file holds; `None` when it is new or empty.
fn owner(path: &Path, stored: Option<&[u8]>) -> Result<Option<[u8; 16]>, String> {
    match stored.filter(|bytes| !bytes.is_empty()).map(SessionMemory::tokenizer_of) {
        None => Ok(None),
        Some(Some(tokenizer)) => Ok(Some(tokenizer)),
        Some(None) => Err(format!(
            "{} is not a session memory and is left as it is: name another file with --memory",
            path.display()
        )),
    }
}

/// Refuses the memory of a model with another tokenizer, which a reply would replace.
fn check_owner(path: &Path, stored: Option<&[u8]>, key: MemoryKey) -> Result<(), String> {
    match owner(path, stored)? {
        Some(tokenizer) if tokenizer != key.tokenizer => Err(format!(
            "{} holds the memory of a model with another tokenizer: give this model a file of its own",
            path.display()
        )),
        _ => Ok(()),
    }
}

/// A new file that only its owner reads: replies are private.
fn create(path: &Path) -> io::Result<File> {
    // What a run left that ended while it wrote; the lock is held.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
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
    async fn read(&self, key: MemoryKey) -> Result<Option<Vec<u8>>, String> {
        let Some(path) = self.0.as_deref() else { return Ok(None) };
        let stored = read(path)?;
        check_owner(path, stored.as_deref(), key)?;
        Ok(stored)
    }

    async fn update(
        &self,
        key: MemoryKey,
        change: impl FnOnce(Option<&[u8]>) -> Vec<u8>,
    ) -> Result<(), String> {
        self.replace(Some(key), change).await
    }

    async fn update_all(&self, change: impl FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<(), String> {
        self.replace(None, change).await
    }
}

impl MemoryFile {
    /// Writes what `change` makes of the file; with a key only where the file is of that model.
    async fn replace(
        &self,
        key: Option<MemoryKey>,
        change: impl FnOnce(Option<&[u8]>) -> Vec<u8>,
    ) -> Result<(), String> {
        let Some(path) = self.0.as_deref() else {
            change(None);
            return Ok(());
        };
        let _lock = lock(path).await?;
        let stored = read(path)?;
        match key {
            Some(key) => check_owner(path, stored.as_deref(), key)?,
            None => drop(owner(path, stored.as_deref())?),
        }
        let new = beside(path, ".new");
        let written = create(&new).and_then(|mut file| file.write_all(&change(stored.as_deref())));
        written.map_err(failed(&new))?;
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

    fn store(key: MemoryKey) -> Vec<u8> {
        SessionMemory::new(key).encode()
    }

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
                    let append = |stored: Option<&[u8]>| [stored.unwrap_or(&store(KEY)), &[byte]].concat();
                    block_on(file.update(KEY, append)).unwrap();
                }
            }
        };
        std::thread::scope(|scope| {
            [1, 2, 3].into_iter().for_each(|byte| drop(scope.spawn(add(byte))));
        });
        let bytes = block_on(MemoryFile::new(Some(&path)).read(KEY)).unwrap().unwrap();
        let bytes = &bytes[store(KEY).len()..];
        for byte in [1, 2, 3] {
            assert_eq!(bytes.iter().filter(|b| **b == byte).count(), 20, "{bytes:?}");
        }
    }

    #[test]
    fn a_lock_that_is_held_is_an_error_and_no_endless_wait() {
        let path = path("held");
        let held = block_on(lock(&path)).unwrap();
        let file = MemoryFile::new(Some(&path));
        let refused = block_on(file.update(KEY, |_| store(KEY))).unwrap_err();
        assert!(refused.contains("another program holds the lock"), "{refused}");
        drop(held);
        block_on(file.update(KEY, |_| store(KEY))).unwrap();
        assert_eq!(block_on(file.read(KEY)).unwrap(), Some(store(KEY)));
        // More than any store is not read whole.
        let large = [store(KEY), vec![0; 2 * STORE_BYTES_MAX]].concat();
        fs::write(&path, large).unwrap();
        assert_eq!(block_on(file.read(KEY)).unwrap().unwrap().len(), STORE_BYTES_MAX + 1);
        assert!(block_on(MemoryFile::new(Some(&std::env::temp_dir())).read(KEY)).is_err(), "a folder");
    }

    /// Seen: `--memory model.gguf` left 72 bytes of a model of two million, with exit code 0.
    #[test]
    fn l01_no_file_of_another_kind_or_model_is_written_over() {
        let path = path("foreign");
        let file = MemoryFile::new(Some(&path));
        for foreign in [&b"GGUF\x03\0\0\0 and a model"[..], b"x", b"FLMEMOR"] {
            fs::write(&path, foreign).unwrap();
            for refused in [
                check(&path).map_err(|error| error.to_string()),
                block_on(file.read(KEY)).map(drop),
                block_on(file.update(KEY, |_| store(KEY))),
                block_on(file.update_all(|_| Vec::new())),
            ] {
                assert!(refused.unwrap_err().contains("is not a session memory"));
            }
            assert_eq!(fs::read(&path).unwrap(), foreign);
        }
        let other = MemoryKey { tokenizer: [2; 16], ..KEY };
        fs::write(&path, store(other)).unwrap();
        assert!(check(&path).is_ok(), "whose it is, is known when the model is");
        let refused = block_on(file.update(KEY, |_| store(KEY))).unwrap_err();
        assert!(refused.contains("another tokenizer"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), store(other));
        // An empty file is taken over; what is written is its owner's alone.
        fs::write(&path, "").unwrap();
        block_on(file.update(KEY, |_| store(KEY))).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
