//! Where the stored references and the real models are.

use std::path::{Path, PathBuf};

/// Why a reference could not be read.
#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    /// The file is not there or not readable.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not JSON.
    #[error("{}: {source}", path.display())]
    Json {
        /// Which file.
        path: PathBuf,
        /// Where it stops being JSON.
        source: serde_json::Error,
    },
}

/// The folder of this crate.
pub fn tests_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of `tests/goldens/`.
///
/// # Errors
/// [`GoldenError`] naming the file.
pub fn load(name: &str) -> Result<serde_json::Value, GoldenError> {
    let path = tests_folder().join("goldens").join(name);
    let text = std::fs::read(&path).map_err(|source| GoldenError::Io { path: path.clone(), source })?;
    serde_json::from_slice(&text).map_err(|source| GoldenError::Json { path, source })
}

/// Where a real model is: `$FANLIGHT_MODELS`, or `models-cache/` of the workspace.
pub fn model_path(file: &str) -> PathBuf {
    let folder = match std::env::var_os("FANLIGHT_MODELS") {
        Some(folder) => PathBuf::from(folder),
        None => tests_folder().join("../models-cache"),
    };
    folder.join(file)
}

/// True when the larger models must be tested too (`FANLIGHT_MODELS_ALL=1`).
pub fn all_models_wanted() -> bool {
    std::env::var_os("FANLIGHT_MODELS_ALL").is_some_and(|v| v == "1")
}
