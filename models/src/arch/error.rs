//! Why a model is refused by the architectures.

use fanlight_messages::TensorType;
use thiserror::Error;

use crate::gguf::MetadataError;

/// A model that cannot be run, found before any weight is fetched.
#[derive(Debug, Clone, PartialEq, Error)]
#[allow(missing_docs, reason = "the fields are named in each message")]
pub enum ArchError {
    /// No file under `arch` for it.
    #[error("architecture {architecture} is not supported (supported: {supported}); choose another model")]
    UnknownArchitecture { architecture: String, supported: String },
    /// A file that goes with a model and is none.
    #[error("this file is {what}, not a language model; choose the model's own file")]
    NotAModel { what: &'static str },
    /// A rotary setting that nothing reads.
    #[error("{key} is not known here, and settings of positions change every reply; choose another file")]
    UnknownRopeKey { key: String },
    /// A metadata entry is missing or of the wrong type.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A value outside its range, or one that contradicts another.
    #[error("{key} is {found}, and {wanted} is needed; convert the file again")]
    HyperParameter { key: String, found: String, wanted: String },
    /// A per-layer list of the wrong length.
    #[error("{key} has {found} entries for {wanted} layers; convert the file again")]
    ListLength { key: String, found: usize, wanted: usize },
    /// A setting that changes the output and is not implemented.
    #[error("{key} = {value} changes the output and is not supported; choose another model")]
    UnsupportedSetting { key: String, value: String },
    /// A tensor that the architecture needs.
    #[error("tensor {tensor} is missing; download or convert the file again")]
    MissingTensor { tensor: String },
    /// A shape that contradicts the hyper-parameters.
    #[error("tensor {tensor} has the shape {found:?}, and {wanted:?} is needed; convert the file again")]
    Shape { tensor: String, found: Vec<u64>, wanted: Vec<u64> },
    /// Rows that are not whole blocks of 32.
    #[error(
        "tensor {tensor} has rows of {columns} weights, and a multiple of 32 is needed; choose another model"
    )]
    Columns { tensor: String, columns: u32 },
    /// A quantised vector.
    #[error(
        "tensor {tensor} is a vector of type {tensor_type}, and F32, F16 or BF16 is needed; convert again"
    )]
    VectorType { tensor: String, tensor_type: TensorType },
    /// A tensor that would change the output and that the architecture does not read.
    #[error(
        "tensor {tensor} changes the output and {architecture} models have none here; choose another model"
    )]
    UnusedTensor { tensor: String, architecture: &'static str },
    /// A layer beyond the count.
    #[error("tensor {tensor} belongs to a layer beyond {key} = {layers}; convert the file again")]
    BeyondLayers { tensor: String, key: String, layers: u32 },
    /// A value that had to be read first is not there.
    #[error("tensor {tensor} has to be read before the program is built and was not given; read it first")]
    SmallTensorUnread { tensor: String },
    /// Values of a small tensor that cannot be used.
    #[error("tensor {tensor} has to hold {wanted} and holds {found}; download the file again")]
    SmallTensorValues { tensor: String, wanted: String, found: String },
}
