//! Reads what the reference needs of a GGUF file: metadata, the tensor table, single rows.
//!
//! For files that the tests trust; the product's own parser is the one that faces hostile input.

use super::value::{TYPE_ARRAY, TYPE_STRING};
use super::{DEFAULT_ALIGNMENT, MAGIC, VERSION, Value};
use fanlight_messages::TensorType;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

/// Where a tensor's data is.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorEntry {
    /// Its name.
    pub name: String,
    /// Elements per row.
    pub columns: u64,
    /// Rows (1 for a vector).
    pub rows: u64,
    /// Its type.
    pub tensor_type: TensorType,
    /// Offset of its first byte in the file.
    pub file_offset: u64,
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Reading failed.
    #[error("reading the file failed: {0}")]
    Io(#[from] io::Error),
    /// It is not a GGUF file of the version that this reader knows.
    #[error("wanted a GGUF file of version {VERSION}, found magic {magic:?} and version {version}")]
    NotGguf {
        /// First four bytes.
        magic: [u8; 4],
        /// Next four.
        version: u32,
    },
    /// A metadata type id that the specification does not have.
    #[error("metadata type {0} is not one of the specification (0 to 12)")]
    UnknownValueType(u32),
    /// A tensor type without a decoder.
    #[error("{name}: there is no decoder for tensor type {type_id}")]
    UnknownTensorType {
        /// Of the tensor.
        name: String,
        /// In the file.
        type_id: u32,
    },
    /// A row is not a whole number of blocks.
    #[error("{name}: {columns} columns are not a whole number of {tensor_type} blocks")]
    PartialBlock {
        /// Of the tensor.
        name: String,
        /// Elements per row.
        columns: u64,
        /// Its type.
        tensor_type: TensorType,
    },
}

/// A seekable source of bytes: a file, or one in memory.
pub trait Source: Read + Seek {}
impl<T: Read + Seek> Source for T {}

/// An open file.
pub struct GgufReader {
    source: Box<dyn Source>,
    /// Keys and values in file order.
    pub metadata: Vec<(String, Value)>,
    /// Tensors in file order.
    pub tensors: Vec<TensorEntry>,
}

impl GgufReader {
    /// Opens a file.
    ///
    /// # Errors
    /// Any [`ReadError`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::new(Box::new(io::BufReader::with_capacity(1 << 20, File::open(path)?)))
    }

    /// Opens a file in memory.
    ///
    /// # Errors
    /// Any [`ReadError`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ReadError> {
        Self::new(Box::new(Cursor::new(bytes)))
    }

    /// Reads the header of any source.
    fn new(mut source: Box<dyn Source>) -> Result<Self, ReadError> {
        let magic: [u8; 4] = read_array(&mut source)?;
        let version = read_u32(&mut source)?;
        if magic != MAGIC || version != VERSION {
            return Err(ReadError::NotGguf { magic, version });
        }
        let tensor_count = read_u64(&mut source)?;
        let metadata_count = read_u64(&mut source)?;
        let mut metadata = Vec::new();
        for _ in 0..metadata_count {
            let key = String::from_utf8_lossy(&read_string(&mut source)?).into_owned();
            let type_id = read_u32(&mut source)?;
            metadata.push((key, read_value(&mut source, type_id)?));
        }
        let mut tensors = Vec::new();
        for _ in 0..tensor_count {
            tensors.push(read_entry(&mut source)?);
        }
        let alignment = metadata.iter().find(|(k, _)| k == "general.alignment");
        let alignment = alignment.and_then(|(_, v)| v.as_u64()).unwrap_or(DEFAULT_ALIGNMENT).max(1);
        let data_start = source.stream_position()?.next_multiple_of(alignment);
        tensors.iter_mut().for_each(|t| t.file_offset += data_start);
        Ok(Self { source, metadata, tensors })
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.metadata.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// The entry of a tensor.
    pub fn tensor(&self, name: &str) -> Option<&TensorEntry> {
        self.tensors.iter().find(|t| t.name == name)
    }

    /// The bytes of `count` rows from `first` on.
    ///
    /// # Errors
    /// [`ReadError::PartialBlock`], [`ReadError::Io`] (also past the end of the file).
    pub fn read_rows(&mut self, entry: &TensorEntry, first: u64, count: u64) -> Result<Vec<u8>, ReadError> {
        let row_bytes =
            entry.tensor_type.row_bytes(entry.columns).ok_or_else(|| ReadError::PartialBlock {
                name: entry.name.clone(),
                columns: entry.columns,
                tensor_type: entry.tensor_type,
            })?;
        let mut bytes = vec![0; (row_bytes * count) as usize];
        self.source.seek(SeekFrom::Start(entry.file_offset + first * row_bytes))?;
        self.source.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

fn read_entry(source: &mut impl Read) -> Result<TensorEntry, ReadError> {
    let name = String::from_utf8_lossy(&read_string(source)?).into_owned();
    let dims_len = read_u32(source)?;
    let mut dims = Vec::new();
    for _ in 0..dims_len {
        dims.push(read_u64(source)?);
    }
    let type_id = read_u32(source)?;
    let file_offset = read_u64(source)?;
    let Some(tensor_type) = TensorType::from_ggml_id(type_id) else {
        return Err(ReadError::UnknownTensorType { name, type_id });
    };
    let columns = dims.first().copied().unwrap_or(1);
    Ok(TensorEntry { name, columns, rows: dims.iter().skip(1).product(), tensor_type, file_offset })
}

fn read_array<const N: usize>(source: &mut impl Read) -> Result<[u8; N], ReadError> {
    let mut bytes = [0; N];
    source.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_u32(source: &mut impl Read) -> Result<u32, ReadError> {
    Ok(u32::from_le_bytes(read_array(source)?))
}

fn read_u64(source: &mut impl Read) -> Result<u64, ReadError> {
    Ok(u64::from_le_bytes(read_array(source)?))
}

fn read_string(source: &mut impl Read) -> Result<Vec<u8>, ReadError> {
    let len = read_u64(source)?;
    let mut bytes = Vec::new();
    source.take(len).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != len {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(bytes)
}

fn read_value(source: &mut impl Read, type_id: u32) -> Result<Value, ReadError> {
    Ok(match type_id {
        0 => Value::U8(u8::from_le_bytes(read_array(source)?)),
        1 => Value::I8(i8::from_le_bytes(read_array(source)?)),
        2 => Value::U16(u16::from_le_bytes(read_array(source)?)),
        3 => Value::I16(i16::from_le_bytes(read_array(source)?)),
        4 => Value::U32(read_u32(source)?),
        5 => Value::I32(i32::from_le_bytes(read_array(source)?)),
        6 => Value::F32(f32::from_le_bytes(read_array(source)?)),
        7 => Value::Bool(read_array::<1>(source)? != [0]),
        TYPE_STRING => Value::String(read_string(source)?),
        TYPE_ARRAY => {
            let element_type = read_u32(source)?;
            let len = read_u64(source)?;
            let elements = (0..len).map(|_| read_value(source, element_type)).collect::<Result<_, _>>()?;
            Value::Array { element_type, elements }
        }
        10 => Value::U64(read_u64(source)?),
        11 => Value::I64(i64::from_le_bytes(read_array(source)?)),
        12 => Value::F64(f64::from_le_bytes(read_array(source)?)),
        other => return Err(ReadError::UnknownValueType(other)),
    })
}
