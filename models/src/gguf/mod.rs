//! The GGUF container: typed metadata, the tensor directory, split files.

mod cursor;
pub mod error;
pub mod header;
pub mod limits;
pub mod metadata;
pub mod model_file;
mod packaging;
pub mod tensor;
mod value;

pub use error::GgufError;
pub use header::{GgufHeader, HeaderReader, HeaderStep};
pub use metadata::{Metadata, MetadataArray, MetadataError, MetadataValue};
pub use model_file::{ModelFile, ModelTensor, Shard, ShardError, shard_names};
pub use tensor::TensorInfo;
