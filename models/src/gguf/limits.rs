//! Limits of the header reader, each with its reason. They bound memory and downloads, whatever a file
//! claims.

/// Bytes of a header, directory included. The largest headers in circulation (262,144 tokens with scores and
/// merges) have about 16 MiB.
pub const HEADER_BYTES_MAX: u64 = 64 << 20;
/// Bytes asked for first: enough for the header of a small model in one request.
pub const FETCH_BYTES_FIRST: u64 = 1 << 20;
/// Most bytes asked for at once; requests double up to here.
pub const FETCH_BYTES_MAX: u64 = 8 << 20;
/// Metadata entries. Files in circulation have fewer than a hundred.
pub const ENTRY_COUNT_MAX: u64 = 16_384;
/// Tensors of one file. The largest dense and expert models have a few thousand.
pub const TENSOR_COUNT_MAX: u64 = 65_536;
/// Bytes of a metadata key: the specification's limit.
pub const KEY_BYTES_MAX: u64 = 65_535;
/// Bytes of a metadata string. Chat templates, the longest strings, stay below 100 KiB.
pub const STRING_BYTES_MAX: u64 = 4 << 20;
/// Elements of a metadata array. Merge lists, the longest, have about half a million.
pub const ARRAY_LEN_MAX: u64 = 1 << 22;
/// Levels of arrays in arrays. One is in use.
pub const ARRAY_DEPTH_MAX: u32 = 4;
/// Bytes of a tensor name. Writers keep them below 64.
pub const TENSOR_NAME_BYTES_MAX: u64 = 256;
/// Dimensions of a tensor: the specification's limit.
pub const DIMENSIONS_MAX: u32 = 4;
/// Alignment of the data. 32 is usual, memory pages of 64 KiB the largest that has a use.
pub const ALIGNMENT_MAX: u32 = 65_536;
/// Alignment where the file gives none: the specification's default.
pub const ALIGNMENT_DEFAULT: u32 = 32;
/// Files of a split model.
pub const SHARDS_MAX: u32 = 1_024;

/// A tokenizer in another library's own form, which the specification allows and which is not read.
pub(super) const SKIPPED_KEY: &str = "tokenizer.huggingface.json";
/// Bytes of the smallest metadata entry: a key length, one byte of key, a type and one byte of value.
pub(super) const ENTRY_BYTES_MIN: u64 = 8 + 1 + 4 + 1;
/// Bytes of the smallest directory entry: a name length, one byte of name, a dimension count, one dimension,
/// a type and an offset.
pub(super) const TENSOR_BYTES_MIN: u64 = 8 + 1 + 4 + 8 + 4 + 8;
