//! A small GGUF writer for tests, written from the specification and sharing no code with the reader.
#![allow(dead_code, reason = "every test file uses a part of it")]

use fanlight_models::gguf::{GgufError, GgufHeader, HeaderReader, HeaderStep};

/// Value type ids of the specification.
pub mod value_type {
    pub const U8: u32 = 0;
    pub const I32: u32 = 5;
    pub const U32: u32 = 4;
    pub const F32: u32 = 6;
    pub const BOOL: u32 = 7;
    pub const STRING: u32 = 8;
    pub const ARRAY: u32 = 9;
}

/// Tensor type ids, blocks and bytes per block.
const TYPES: [(u32, u64, u64); 14] = [
    (0, 1, 4),
    (1, 1, 2),
    (2, 32, 18),
    (3, 32, 20),
    (6, 32, 22),
    (7, 32, 24),
    (8, 32, 34),
    (10, 256, 84),
    (11, 256, 110),
    (12, 256, 144),
    (13, 256, 176),
    (14, 256, 210),
    (20, 32, 18),
    (30, 1, 2),
];

#[derive(Clone)]
pub struct Entry {
    pub key: Vec<u8>,
    pub value_type: u32,
    pub payload: Vec<u8>,
}

#[derive(Clone)]
pub struct Tensor {
    pub name: Vec<u8>,
    pub dims: Vec<u64>,
    pub type_id: u32,
    /// Written instead of the computed offset.
    pub offset: Option<u64>,
    /// Bytes; generated from the index when empty.
    pub data: Vec<u8>,
}

/// A file to be written.
#[derive(Clone)]
pub struct GgufWriter {
    pub version: u32,
    pub entries: Vec<Entry>,
    pub tensors: Vec<Tensor>,
    pub alignment: u64,
    /// Written instead of the real counts.
    pub tensor_count: Option<u64>,
    pub entry_count: Option<u64>,
}

pub fn string(bytes: &[u8]) -> Vec<u8> {
    let mut out = (bytes.len() as u64).to_le_bytes().to_vec();
    out.extend_from_slice(bytes);
    out
}

/// Payload of an array value.
pub fn array(element_type: u32, elements: &[Vec<u8>]) -> Vec<u8> {
    let mut out = element_type.to_le_bytes().to_vec();
    out.extend((elements.len() as u64).to_le_bytes());
    out.extend(elements.iter().flatten());
    out
}

impl Default for GgufWriter {
    fn default() -> Self {
        Self {
            version: 3,
            entries: Vec::new(),
            tensors: Vec::new(),
            alignment: 32,
            tensor_count: None,
            entry_count: None,
        }
    }
}

impl GgufWriter {
    /// Sets a value, replacing one of the same key.
    pub fn set(&mut self, key: &str, value_type: u32, payload: Vec<u8>) -> &mut Self {
        let entry = Entry { key: key.as_bytes().to_vec(), value_type, payload };
        match self.entries.iter_mut().find(|e| e.key == key.as_bytes()) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
        self
    }
    pub fn set_u32(&mut self, key: &str, value: u32) -> &mut Self {
        self.set(key, value_type::U32, value.to_le_bytes().to_vec())
    }
    pub fn set_f32(&mut self, key: &str, value: f32) -> &mut Self {
        self.set(key, value_type::F32, value.to_le_bytes().to_vec())
    }
    pub fn set_bool(&mut self, key: &str, value: bool) -> &mut Self {
        self.set(key, value_type::BOOL, vec![value.into()])
    }
    pub fn set_str(&mut self, key: &str, value: &str) -> &mut Self {
        self.set(key, value_type::STRING, string(value.as_bytes()))
    }
    pub fn set_u32s(&mut self, key: &str, values: &[u32]) -> &mut Self {
        let elements: Vec<_> = values.iter().map(|v| v.to_le_bytes().to_vec()).collect();
        self.set(key, value_type::ARRAY, array(value_type::U32, &elements))
    }
    pub fn set_strs(&mut self, key: &str, values: &[&[u8]]) -> &mut Self {
        let elements: Vec<_> = values.iter().map(|v| string(v)).collect();
        self.set(key, value_type::ARRAY, array(value_type::STRING, &elements))
    }
    pub fn remove(&mut self, key: &str) -> &mut Self {
        self.entries.retain(|e| e.key != key.as_bytes());
        self
    }
    /// Adds a tensor with generated data.
    pub fn tensor(&mut self, name: &str, dims: &[u64], type_id: u32) -> &mut Self {
        let (name, dims) = (name.as_bytes().to_vec(), dims.to_vec());
        self.tensors.push(Tensor { name, dims, type_id, offset: None, data: Vec::new() });
        self
    }
    pub fn remove_tensor(&mut self, name: &str) -> &mut Self {
        self.tensors.retain(|t| t.name != name.as_bytes());
        self
    }
    pub fn tensor_mut(&mut self, name: &str) -> &mut Tensor {
        self.tensors.iter_mut().find(|t| t.name == name.as_bytes()).expect("a tensor of that name")
    }

    /// Header bytes up to the padding.
    pub fn header_bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.entry_count.unwrap_or(self.entries.len() as u64).to_le_bytes());
        for entry in &self.entries {
            out.extend(string(&entry.key));
            out.extend(entry.value_type.to_le_bytes());
            out.extend(&entry.payload);
        }
        for (tensor, offset) in self.tensors.iter().zip(self.offsets()) {
            out.extend(string(&tensor.name));
            out.extend((tensor.dims.len() as u32).to_le_bytes());
            tensor.dims.iter().for_each(|d| out.extend(d.to_le_bytes()));
            out.extend(tensor.type_id.to_le_bytes());
            out.extend(tensor.offset.unwrap_or(offset).to_le_bytes());
        }
        out
    }

    fn offsets(&self) -> Vec<u64> {
        let mut next = 0;
        let mut offsets = Vec::new();
        for tensor in &self.tensors {
            offsets.push(next);
            next += tensor_bytes(tensor).next_multiple_of(self.alignment);
        }
        offsets
    }

    /// First byte of the data.
    pub fn data_start(&self) -> u64 {
        (self.header_bytes().len() as u64).next_multiple_of(self.alignment)
    }

    /// Length of the file; the last tensor is not padded.
    pub fn file_bytes(&self) -> u64 {
        let end = self.tensors.iter().zip(self.offsets()).map(|(t, o)| o + tensor_bytes(t)).max();
        end.map_or(self.header_bytes().len() as u64, |end| self.data_start() + end)
    }

    /// The whole file.
    pub fn file(&self) -> Vec<u8> {
        let mut out = self.header_bytes();
        for (index, (tensor, offset)) in self.tensors.iter().zip(self.offsets()).enumerate() {
            out.resize((self.data_start() + offset) as usize, 0);
            match tensor.data.is_empty() {
                true => out.resize(out.len() + tensor_bytes(tensor) as usize, index as u8 + 1),
                false => out.extend(&tensor.data),
            }
        }
        out
    }
}

fn tensor_bytes(tensor: &Tensor) -> u64 {
    let Some((_, block, bytes)) = TYPES.iter().find(|(id, _, _)| *id == tensor.type_id) else { return 4 };
    let elements = tensor.dims.iter().fold(1u64, |product, dim| product.wrapping_mul(*dim));
    (elements / block).wrapping_mul(*bytes)
}

/// Reads the header of a file whose first bytes are `bytes` and whose length is `file_bytes`, as a host does:
/// range by range. A range beyond `bytes` is answered short.
pub fn read_sparse(bytes: &[u8], file_bytes: u64) -> Result<GgufHeader, GgufError> {
    let mut reader = HeaderReader::new(file_bytes);
    loop {
        let range = reader.wanted_range();
        let len = bytes.len() as u64;
        let given = &bytes[range.start.min(len) as usize..range.end.min(len) as usize];
        match reader.feed(given)? {
            HeaderStep::More(next) => reader = next,
            HeaderStep::Done(header) => return Ok(*header),
        }
    }
}

/// Reads the header of a whole file.
pub fn read(bytes: &[u8]) -> Result<GgufHeader, GgufError> {
    read_sparse(bytes, bytes.len() as u64)
}

/// Reads a header fed `step` bytes at a time.
pub fn read_in_steps(bytes: &[u8], step: usize) -> Result<GgufHeader, GgufError> {
    let mut reader = HeaderReader::new(bytes.len() as u64);
    loop {
        let range = reader.wanted_range();
        let start = range.start as usize;
        let end = (range.end as usize).min(start + step);
        match reader.feed(&bytes[start..end])? {
            HeaderStep::More(next) => reader = next,
            HeaderStep::Done(header) => return Ok(*header),
        }
    }
}
