//! The GGUF container: typed metadata and the tensor directory.

pub mod metadata;

pub use metadata::{Metadata, MetadataArray, MetadataValue};
