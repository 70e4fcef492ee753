//! Metadata of a GGUF file as typed data.

/// A metadata value. Strings are kept as raw bytes: token pieces need not be UTF-8.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names are those of the specification")]
pub enum MetadataValue {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    String(Vec<u8>),
    Array(MetadataArray),
}

/// An array of one element type.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names are those of the specification")]
pub enum MetadataArray {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    String(Vec<Vec<u8>>),
    Array(Vec<MetadataArray>),
}

/// Keys and values in file order; keys are unique.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    entries: Vec<(String, MetadataValue)>,
}

impl Metadata {
    /// From entries whose keys are unique.
    pub fn new(entries: Vec<(String, MetadataValue)>) -> Self {
        Self { entries }
    }
    /// All entries in file order.
    pub fn entries(&self) -> &[(String, MetadataValue)] {
        &self.entries
    }
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&MetadataValue> {
        self.entries.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }
}
