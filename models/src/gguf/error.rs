//! Why a header is refused.

use fanlight_messages::TensorType;
use thiserror::Error;

use super::metadata::MetadataError;

/// A header that cannot be used. Nothing of the file's weights has been read when one is returned.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the fields are named in each message")]
pub enum GgufError {
    /// The magic bytes are others.
    #[error("expected a gguf file (\"GGUF\") and found \"{}\"; choose another file", found.escape_ascii())]
    NotGguf { found: [u8; 4] },
    /// Written by a big-endian machine.
    #[error("this is a big-endian gguf file, which is not supported; convert it to little-endian")]
    BigEndian,
    /// A version with another layout.
    #[error("expected gguf version 2 or 3 and found version {version}; convert the file again")]
    UnsupportedVersion { version: u32 },
    /// The file ends before what it promises.
    #[error(
        "truncated header: {what} wants {wanted_bytes} bytes and the file has {left_bytes} left; \
         download the file again"
    )]
    Truncated { what: String, wanted_bytes: u64, left_bytes: u64 },
    /// The caller fed nothing although the file is longer.
    #[error(
        "truncated header: the source ended after {read_bytes} of {file_bytes} bytes; download the file again"
    )]
    SourceEnded { read_bytes: u64, file_bytes: u64 },
    /// The caller fed more than it was asked for.
    #[error(
        "the source gave {read_bytes} bytes where at most {wanted_bytes} were asked for; check its ranges"
    )]
    SurplusBytes { read_bytes: u64, wanted_bytes: u64 },
    /// A length or count above a named cap.
    #[error("{what} is {wanted}, above the limit of {limit}; the file is damaged or not a language model")]
    OverLimit { what: String, wanted: u64, limit: u64 },
    /// A key without a name.
    #[error("metadata entry {index} has an empty key; the file is damaged")]
    EmptyKey { index: u64 },
    /// A key that is not text.
    #[error("the key of metadata entry {index} is not utf-8; the file is damaged")]
    KeyNotUtf8 { index: u64 },
    /// A key given twice.
    #[error("metadata key {key} is given twice; convert the file again")]
    DuplicateKey { key: String },
    /// A type id that the specification lacks.
    #[error("metadata key {key} has value type {id}, and types 0 to 12 exist; the file is damaged")]
    UnknownValueType { key: String, id: u32 },
    /// A boolean that is neither 0 nor 1.
    #[error("metadata key {key} holds the boolean {value}, and only 0 and 1 exist; the file is damaged")]
    InvalidBool { key: String, value: u8 },
    /// An alignment that is no power of two, or too large.
    #[error(
        "general.alignment is {alignment}, and a power of two up to {limit} is needed; convert the file again"
    )]
    Alignment { alignment: u32, limit: u32 },
    /// A metadata value of the wrong type.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A tensor without a name.
    #[error("tensor {index} has an empty name; the file is damaged")]
    EmptyTensorName { index: u64 },
    /// A tensor name that is not text.
    #[error("the name of tensor {index} is not utf-8; the file is damaged")]
    TensorNameNotUtf8 { index: u64 },
    /// A tensor listed twice.
    #[error("tensor {tensor} is listed twice; convert the file again")]
    DuplicateTensor { tensor: String },
    /// Not one to four dimensions.
    #[error("tensor {tensor} has {count} dimensions, and 1 to {limit} are allowed; the file is damaged")]
    DimensionCount { tensor: String, count: u32, limit: u32 },
    /// A dimension of zero.
    #[error("tensor {tensor} has the dimensions {dims:?}, and none may be 0; the file is damaged")]
    ZeroDimension { tensor: String, dims: Vec<u64> },
    /// A weight format without kernels.
    #[error(
        "tensor {tensor} is {}, which is not supported; choose a file in Q4_K_M, Q8_0 or another of the \
         types {}",
        type_name(*id), supported_types()
    )]
    UnsupportedType { tensor: String, id: u32 },
    /// A row that is not a whole number of blocks.
    #[error(
        "tensor {tensor} has rows of {columns} weights, and type {type_name} needs a multiple of \
         {block_len}; the file is damaged"
    )]
    PartialBlock { tensor: String, type_name: &'static str, columns: u64, block_len: u64 },
    /// Dimensions whose product does not fit 64 bits.
    #[error("tensor {tensor} with the dimensions {dims:?} is larger than any file; the file is damaged")]
    SizeOverflow { tensor: String, dims: Vec<u64> },
    /// An offset that is not a multiple of the alignment.
    #[error(
        "tensor {tensor} starts at offset {offset}, which is not a multiple of {alignment}; convert again"
    )]
    Misaligned { tensor: String, offset: u64, alignment: u32 },
    /// Weights beyond the end of the file.
    #[error(
        "tensor {tensor} wants {bytes} bytes at data offset {offset}, beyond the file of {file_bytes} bytes; \
         download the file again"
    )]
    BeyondFile { tensor: String, offset: u64, bytes: u64, file_bytes: u64 },
}

/// Names of the published formats that have no kernels here.
const OTHER_TYPES: [(u32, &str); 28] = [
    (4, "Q4_2"),
    (5, "Q4_3"),
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
    (39, "MXFP4"),
    (40, "NVFP4"),
    (41, "Q1_0"),
];

fn type_name(id: u32) -> String {
    let known = OTHER_TYPES.iter().find(|(known, _)| *known == id);
    known.map_or_else(|| format!("of the unknown type {id}"), |(_, name)| format!("of type {name}"))
}

fn supported_types() -> String {
    TensorType::ALL.map(TensorType::name).join(", ")
}
