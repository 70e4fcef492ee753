//! GGUF version 3 files as plain data: written for tests, read by the reference.

pub mod reader;
pub mod value;
pub mod writer;

pub use reader::{GgufReader, ReadError, TensorEntry};
pub use value::Value;
pub use writer::{GgufFile, TensorPlan, WriteError};

/// The first four bytes of a file.
pub const MAGIC: [u8; 4] = *b"GGUF";
/// The version written and read.
pub const VERSION: u32 = 3;
/// Tensor data starts at multiples of this many bytes unless `general.alignment` says otherwise.
pub const DEFAULT_ALIGNMENT: u64 = 32;
