//! Writes GGUF files: a small one in memory, or a header first and tensor bytes streamed after it.

use super::value::write_string;
use super::{DEFAULT_ALIGNMENT, MAGIC, VERSION, Value};
use fanlight_messages::TensorType;
use std::io::{self, Write};

/// What a tensor of a file will be; its bytes come later.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorPlan {
    /// Its name.
    pub name: String,
    /// Extents, fastest first: columns, then rows.
    pub dims: Vec<u64>,
    /// Type id as written (any number, so that hostile files can be made).
    pub type_id: u32,
    /// Bytes of data.
    pub size_bytes: u64,
}

/// Why a file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The columns of a tensor do not fill whole blocks.
    #[error(
        "{name}: {columns} columns do not fill whole {tensor_type} blocks; pick a multiple of {block_len}"
    )]
    PartialBlock {
        /// Of the tensor.
        name: String,
        /// Its first extent.
        columns: u64,
        /// Its type.
        tensor_type: TensorType,
        /// Weights per block.
        block_len: u64,
    },
    /// The data given has another size than the plan says.
    #[error("{name}: {found_bytes} bytes were given where the plan says {wanted_bytes}")]
    SizeMismatch {
        /// Of the tensor.
        name: String,
        /// By its plan.
        wanted_bytes: u64,
        /// In the data.
        found_bytes: u64,
    },
    /// Writing failed.
    #[error("writing the file failed: {0}")]
    Io(#[from] io::Error),
}

impl TensorPlan {
    /// A tensor of `rows` x `columns` in a supported type. One row makes a vector (one extent).
    ///
    /// # Errors
    /// [`WriteError::PartialBlock`] when a row is not a whole number of blocks.
    pub fn new(
        name: impl Into<String>,
        rows: u64,
        columns: u64,
        tensor_type: TensorType,
    ) -> Result<Self, WriteError> {
        let name = name.into();
        let Some(row_bytes) = tensor_type.row_bytes(columns) else {
            let block_len = tensor_type.block_len();
            return Err(WriteError::PartialBlock { name, columns, tensor_type, block_len });
        };
        let dims = if rows == 1 { vec![columns] } else { vec![columns, rows] };
        Ok(Self { name, dims, type_id: tensor_type.ggml_id(), size_bytes: row_bytes * rows })
    }
}

/// A small file in memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GgufFile {
    /// Keys and values in file order; duplicates are written as they stand.
    pub metadata: Vec<(String, Value)>,
    /// Tensors with their data, in file order.
    pub tensors: Vec<(TensorPlan, Vec<u8>)>,
}

impl GgufFile {
    /// Sets a key, replacing an earlier value.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) -> &mut Self {
        let (key, value) = (key.into(), value.into());
        match self.metadata.iter_mut().find(|(k, _)| *k == key) {
            Some(entry) => entry.1 = value,
            None => self.metadata.push((key, value)),
        }
        self
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.metadata.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// Removes a key; true when it was there.
    pub fn remove(&mut self, key: &str) -> bool {
        let before = self.metadata.len();
        self.metadata.retain(|(k, _)| k != key);
        before != self.metadata.len()
    }

    /// Adds a tensor with its bytes.
    ///
    /// # Errors
    /// [`WriteError::SizeMismatch`] when the data is not as long as the plan says.
    pub fn push(&mut self, plan: TensorPlan, data: Vec<u8>) -> Result<&mut Self, WriteError> {
        let found_bytes = data.len() as u64;
        if found_bytes != plan.size_bytes {
            return Err(WriteError::SizeMismatch {
                name: plan.name,
                wanted_bytes: plan.size_bytes,
                found_bytes,
            });
        }
        self.tensors.push((plan, data));
        Ok(self)
    }

    /// The bytes of a tensor, to be read or spoiled.
    pub fn tensor_mut(&mut self, name: &str) -> Option<&mut (TensorPlan, Vec<u8>)> {
        self.tensors.iter_mut().find(|(plan, _)| plan.name == name)
    }

    /// The alignment that the metadata asks for.
    fn alignment(&self) -> u64 {
        self.get("general.alignment").and_then(Value::as_u64).unwrap_or(DEFAULT_ALIGNMENT).max(1)
    }

    /// The whole file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let plans: Vec<TensorPlan> = self.tensors.iter().map(|(plan, _)| plan.clone()).collect();
        let mut out = header_bytes(&self.metadata, &plans, self.alignment());
        for (_, data) in &self.tensors {
            out.extend_from_slice(data);
            out.resize(out.len().next_multiple_of(self.alignment() as usize), 0);
        }
        out
    }

    /// Writes the whole file to a path.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn save(&self, path: &std::path::Path) -> Result<(), WriteError> {
        Ok(io::BufWriter::new(std::fs::File::create(path)?).write_all(&self.to_bytes())?)
    }
}

/// Everything ahead of the tensor data, padded: magic, metadata, tensor table. Data follows in the order of
/// the plans, each padded to `alignment` bytes.
pub fn header_bytes(metadata: &[(String, Value)], plans: &[TensorPlan], alignment: u64) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend((plans.len() as u64).to_le_bytes());
    out.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        write_string(key.as_bytes(), &mut out);
        out.extend(value.type_id().to_le_bytes());
        value.write_to(&mut out);
    }
    let mut offset = 0_u64;
    for plan in plans {
        write_string(plan.name.as_bytes(), &mut out);
        out.extend((plan.dims.len() as u32).to_le_bytes());
        plan.dims.iter().for_each(|d| out.extend(d.to_le_bytes()));
        out.extend(plan.type_id.to_le_bytes());
        out.extend(offset.to_le_bytes());
        offset += plan.size_bytes.next_multiple_of(alignment);
    }
    out.resize(out.len().next_multiple_of(alignment as usize), 0);
    out
}
