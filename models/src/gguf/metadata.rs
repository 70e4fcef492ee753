//! Metadata of a GGUF file as typed data, and accessors that check types.

use std::borrow::Cow;
use std::collections::BTreeMap;

use thiserror::Error;

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

/// A metadata entry that is missing or not what it has to be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the fields are named in each message")]
pub enum MetadataError {
    /// A key that is needed.
    #[error("metadata key {key} is missing; convert the file again with a current converter")]
    Missing { key: String },
    /// Another type.
    #[error("metadata key {key} has to be {wanted} and is {found}; convert the file again")]
    WrongType { key: String, wanted: &'static str, found: String },
    /// An integer that does not fit.
    #[error("metadata key {key} is {value}, outside 0..=4294967295; convert the file again")]
    OutOfRange { key: String, value: i128 },
}

impl MetadataValue {
    /// Type name for messages: `u32`, `string`, `array of f32`.
    pub fn type_name(&self) -> String {
        let scalar = match self {
            Self::U8(_) => "u8",
            Self::I8(_) => "i8",
            Self::U16(_) => "u16",
            Self::I16(_) => "i16",
            Self::U32(_) => "u32",
            Self::I32(_) => "i32",
            Self::U64(_) => "u64",
            Self::I64(_) => "i64",
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::Bool(_) => "bool",
            Self::String(_) => "string",
            Self::Array(array) => return format!("array of {}", array.element_type_name()),
        };
        scalar.to_owned()
    }

    /// An integer that fits.
    pub(super) fn as_u32(&self) -> Option<u32> {
        self.integer().and_then(|value| u32::try_from(value).ok())
    }

    fn integer(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(v) => v.into(),
            Self::I8(v) => v.into(),
            Self::U16(v) => v.into(),
            Self::I16(v) => v.into(),
            Self::U32(v) => v.into(),
            Self::I32(v) => v.into(),
            Self::U64(v) => v.into(),
            Self::I64(v) => v.into(),
            _ => return None,
        })
    }
}

impl MetadataArray {
    /// Type name of the elements, for messages.
    pub fn element_type_name(&self) -> &'static str {
        match self {
            Self::U8(_) => "u8",
            Self::I8(_) => "i8",
            Self::U16(_) => "u16",
            Self::I16(_) => "i16",
            Self::U32(_) => "u32",
            Self::I32(_) => "i32",
            Self::U64(_) => "u64",
            Self::I64(_) => "i64",
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::Bool(_) => "bool",
            Self::String(_) => "string",
            Self::Array(_) => "array",
        }
    }

    /// Elements.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(v) => v.len(),
            Self::I8(v) => v.len(),
            Self::U16(v) => v.len(),
            Self::I16(v) => v.len(),
            Self::U32(v) => v.len(),
            Self::I32(v) => v.len(),
            Self::U64(v) => v.len(),
            Self::I64(v) => v.len(),
            Self::F32(v) => v.len(),
            Self::F64(v) => v.len(),
            Self::Bool(v) => v.len(),
            Self::String(v) => v.len(),
            Self::Array(v) => v.len(),
        }
    }

    /// True when it has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps the first `len` elements.
    pub(super) fn truncate(&mut self, len: usize) {
        match self {
            Self::U8(v) => v.truncate(len),
            Self::I8(v) => v.truncate(len),
            Self::U16(v) => v.truncate(len),
            Self::I16(v) => v.truncate(len),
            Self::U32(v) => v.truncate(len),
            Self::I32(v) => v.truncate(len),
            Self::U64(v) => v.truncate(len),
            Self::I64(v) => v.truncate(len),
            Self::F32(v) => v.truncate(len),
            Self::F64(v) => v.truncate(len),
            Self::Bool(v) => v.truncate(len),
            Self::String(v) => v.truncate(len),
            Self::Array(v) => v.truncate(len),
        }
    }

    fn integers(&self) -> Option<Vec<i128>> {
        fn widen<T: Copy + Into<i128>>(values: &[T]) -> Option<Vec<i128>> {
            Some(values.iter().map(|v| (*v).into()).collect())
        }
        match self {
            Self::U8(v) => widen(v),
            Self::I8(v) => widen(v),
            Self::U16(v) => widen(v),
            Self::I16(v) => widen(v),
            Self::U32(v) => widen(v),
            Self::I32(v) => widen(v),
            Self::U64(v) => widen(v),
            Self::I64(v) => widen(v),
            _ => None,
        }
    }
}

/// Keys and values in file order; keys are unique.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    entries: Vec<(String, MetadataValue)>,
    positions: BTreeMap<String, usize>,
}

impl Metadata {
    /// From entries whose keys are unique; of a repeated key, the first is found.
    pub fn new(entries: Vec<(String, MetadataValue)>) -> Self {
        let mut positions = BTreeMap::new();
        for (position, (key, _)) in entries.iter().enumerate() {
            positions.entry(key.clone()).or_insert(position);
        }
        Self { entries, positions }
    }

    /// All entries, to be changed and put together again.
    pub(super) fn into_entries(self) -> Vec<(String, MetadataValue)> {
        self.entries
    }

    /// All entries in file order.
    pub fn entries(&self) -> &[(String, MetadataValue)] {
        &self.entries
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&MetadataValue> {
        self.positions.get(key).and_then(|position| self.entries.get(*position)).map(|(_, value)| value)
    }

    /// Applies `read` to the value of a key; `wanted` is what the error calls the type.
    fn typed<'a, T>(
        &'a self,
        key: &str,
        wanted: &'static str,
        read: impl FnOnce(&'a MetadataValue) -> Option<T>,
    ) -> Result<Option<T>, MetadataError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| MetadataError::WrongType {
            key: key.to_owned(),
            wanted,
            found: value.type_name(),
        })
    }

    /// An integer of any width; an error when it is another type or does not fit 32 unsigned bits.
    pub fn get_u32(&self, key: &str) -> Result<Option<u32>, MetadataError> {
        self.typed(key, "an integer", MetadataValue::integer)?.map(|value| to_u32(key, value)).transpose()
    }

    /// A float of either width.
    pub fn get_f32(&self, key: &str) -> Result<Option<f32>, MetadataError> {
        self.typed(key, "a float", |value| match *value {
            MetadataValue::F32(v) => Some(v),
            MetadataValue::F64(v) => Some(v as f32),
            _ => None,
        })
    }

    /// A boolean.
    pub fn get_bool(&self, key: &str) -> Result<Option<bool>, MetadataError> {
        self.typed(key, "a boolean", |value| match *value {
            MetadataValue::Bool(v) => Some(v),
            _ => None,
        })
    }

    /// A string as raw bytes.
    pub fn get_bytes(&self, key: &str) -> Result<Option<&[u8]>, MetadataError> {
        self.typed(key, "a string", |value| match value {
            MetadataValue::String(v) => Some(v.as_slice()),
            _ => None,
        })
    }

    /// A string for people, malformed UTF-8 replaced by U+FFFD.
    pub fn get_text(&self, key: &str) -> Result<Option<Cow<'_, str>>, MetadataError> {
        Ok(self.get_bytes(key)?.map(String::from_utf8_lossy))
    }

    /// An array of integers of any width.
    pub fn get_u32_array(&self, key: &str) -> Result<Option<Vec<u32>>, MetadataError> {
        let integers = self.typed(key, "an array of integers", |value| match value {
            MetadataValue::Array(array) => array.integers(),
            _ => None,
        })?;
        integers.map(|list| list.into_iter().map(|value| to_u32(key, value)).collect()).transpose()
    }

    /// An array of floats of either width.
    pub fn get_f32_array(&self, key: &str) -> Result<Option<Vec<f32>>, MetadataError> {
        self.typed(key, "an array of floats", |value| match value {
            MetadataValue::Array(MetadataArray::F32(v)) => Some(v.clone()),
            MetadataValue::Array(MetadataArray::F64(v)) => Some(v.iter().map(|x| *x as f32).collect()),
            _ => None,
        })
    }

    /// An array of booleans.
    pub fn get_bool_array(&self, key: &str) -> Result<Option<&[bool]>, MetadataError> {
        self.typed(key, "an array of booleans", |value| match value {
            MetadataValue::Array(MetadataArray::Bool(v)) => Some(v.as_slice()),
            _ => None,
        })
    }

    /// An array of strings as raw bytes.
    pub fn get_bytes_array(&self, key: &str) -> Result<Option<&[Vec<u8>]>, MetadataError> {
        self.typed(key, "an array of strings", |value| match value {
            MetadataValue::Array(MetadataArray::String(v)) => Some(v.as_slice()),
            _ => None,
        })
    }

    /// One integer for all `len` places, or an array of integers with one for each (its length is the
    /// caller's to check).
    pub fn get_u32_or_array(&self, key: &str, len: usize) -> Result<Option<Vec<u32>>, MetadataError> {
        match self.get(key) {
            Some(MetadataValue::Array(_)) => self.get_u32_array(key),
            _ => Ok(self.get_u32(key)?.map(|value| vec![value; len])),
        }
    }
}

fn to_u32(key: &str, value: i128) -> Result<u32, MetadataError> {
    u32::try_from(value).map_err(|_| MetadataError::OutOfRange { key: key.to_owned(), value })
}

/// The value, or the error that says that `key` is missing.
pub fn required<T>(key: &str, value: Option<T>) -> Result<T, MetadataError> {
    value.ok_or_else(|| MetadataError::Missing { key: key.to_owned() })
}
