//! What the command line keeps between runs: one small file per adapter and model in a cache folder.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use fanlight_actors::costs::CostStore;
use fanlight_messages::error::CostStoreError;

/// Most bytes of a record that are read: many times what one has, so that a larger file is none.
const RECORD_BYTES_MAX: u64 = 4096;

/// A folder of records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheFolder(PathBuf);

impl CacheFolder {
    /// The folder that was asked for, or that of the user; `None` for `off`, or where there is none.
    pub fn find(wanted: Option<&Path>) -> Option<Self> {
        match wanted {
            Some(path) if path == Path::new("off") => None,
            Some(path) => Some(Self(path.to_owned())),
            None => user_folder().map(|folder| Self(folder.join("fanlight"))),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.costs"))
    }
}

/// Where programs of this platform keep what can be made again.
pub fn user_folder() -> Option<PathBuf> {
    let folder = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    match env::consts::OS {
        "windows" => folder("LOCALAPPDATA"),
        "macos" => folder("HOME").map(|home| home.join("Library/Caches")),
        _ => folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache"))),
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> CostStoreError {
    move |error| CostStoreError::Store { reason: format!("{}: {error}", path.display()) }
}

impl CostStore for CacheFolder {
    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, CostStoreError> {
        let path = self.path(name);
        let bytes = match fs::metadata(&path) {
            Ok(metadata) if metadata.len() > RECORD_BYTES_MAX => return Ok(Some(Vec::new())),
            Ok(_) => fs::read(&path),
            Err(error) => Err(error),
        };
        match bytes {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&path)(error)),
        }
    }

    /// Writes beside it and renames, so that another run reads the old record or the new one, never half of
    /// one.
    async fn write(&self, name: &str, record: &[u8]) -> Result<(), CostStoreError> {
        let path = self.path(name);
        let beside = path.with_extension(format!("{}.new", std::process::id()));
        fs::create_dir_all(&self.0).map_err(failed(&self.0))?;
        fs::write(&beside, record).map_err(failed(&beside))?;
        fs::rename(&beside, &path).map_err(|error| {
            // What is left is of no use to anyone; that it stays is no second failure.
            let _ = fs::remove_file(&beside);
            failed(&path)(error)
        })
    }
}
