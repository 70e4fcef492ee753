//! Reads a GGUF header from bytes that the caller fetches: no file is opened here.
//!
//! ```text
//! magic "GGUF" | version u32 | tensor count u64 | entry count u64
//! entries      key string, value type u32, value
//! directory    name string, dimension count u32, dimensions u64, type u32, offset u64
//! padding      up to the alignment
//! data         offsets count from here
//! ```

use std::collections::BTreeSet;
use std::ops::Range;

use super::cursor::{Cursor, Stop, check_limit};
use super::error::GgufError;
use super::limits::*;
use super::metadata::{Metadata, MetadataValue};
use super::tensor::{TensorInfo, place_tensor, read_tensor};
use super::value::read_value;

/// A whole header, checked against the length of its file.
#[derive(Debug, Clone, PartialEq)]
pub struct GgufHeader {
    /// 2 or 3; both have one layout.
    pub version: u32,
    /// Keys and values.
    pub metadata: Metadata,
    /// Tensors in file order; names are unique.
    pub tensors: Vec<TensorInfo>,
    /// First byte of the data, counted from the start of the file.
    pub data_start: u64,
    /// Length of the file.
    pub file_bytes: u64,
}

/// What feeding bytes led to.
#[derive(Debug)]
pub enum HeaderStep {
    /// The reader wants its next range.
    More(HeaderReader),
    /// The header is complete.
    Done(Box<GgufHeader>),
}

/// Reads a header step by step: fetch [`wanted_range`](Self::wanted_range), [`feed`](Self::feed) it, repeat.
///
/// Memory is bounded by the bytes fed and by [`HEADER_BYTES_MAX`], whatever lengths the file claims.
#[derive(Debug)]
pub struct HeaderReader {
    file_bytes: u64,
    /// Bytes fed so far.
    read_bytes: u64,
    /// Bytes of the next request.
    fetch_bytes: u64,
    /// Fed and not yet parsed.
    buffer: Vec<u8>,
    parsed: Parsed,
}

impl HeaderReader {
    /// For a file of `file_bytes` bytes.
    pub fn new(file_bytes: u64) -> Self {
        Self {
            file_bytes,
            read_bytes: 0,
            fetch_bytes: FETCH_BYTES_FIRST,
            buffer: Vec::new(),
            parsed: Parsed::default(),
        }
    }

    /// The bytes of the file to feed next, at most [`FETCH_BYTES_MAX`]; empty only for an empty file.
    pub fn wanted_range(&self) -> Range<u64> {
        let end = self.read_bytes.saturating_add(self.fetch_bytes);
        self.read_bytes..end.min(self.file_bytes).min(HEADER_BYTES_MAX)
    }

    /// Takes the first bytes of [`wanted_range`](Self::wanted_range), all of them or fewer.
    ///
    /// # Errors
    /// Any [`GgufError`]; feeding nothing is [`GgufError::SourceEnded`], so that a source that has run dry
    /// cannot make a caller loop.
    pub fn feed(mut self, bytes: &[u8]) -> Result<HeaderStep, GgufError> {
        let wanted = self.wanted_range();
        let (read_bytes, wanted_bytes) = (bytes.len() as u64, wanted.end - wanted.start);
        if read_bytes > wanted_bytes {
            return Err(GgufError::SurplusBytes { read_bytes, wanted_bytes });
        }
        if bytes.is_empty() {
            return Err(GgufError::SourceEnded { read_bytes: self.read_bytes, file_bytes: self.file_bytes });
        }
        self.read_bytes += read_bytes;
        self.buffer.extend_from_slice(bytes);
        let behind_bytes = self.file_bytes - self.read_bytes;
        let mut parsed_len = 0;
        loop {
            let mut cursor = Cursor::new(&self.buffer[parsed_len..], behind_bytes);
            match self.parsed.advance(&mut cursor) {
                Ok(finished) => {
                    parsed_len += cursor.position();
                    if finished {
                        let header_bytes = self.read_bytes - (self.buffer.len() - parsed_len) as u64;
                        return self.parsed.finish(header_bytes, self.file_bytes).map(HeaderStep::Done);
                    }
                }
                Err(Stop::NeedBytes) => break,
                Err(Stop::Refused(error)) => return Err(error),
            }
        }
        self.buffer.drain(..parsed_len);
        check_limit(self.read_bytes.saturating_add(1), HEADER_BYTES_MAX, || {
            "the length of the header in bytes".to_owned()
        })?;
        self.fetch_bytes = (self.fetch_bytes * 2).min(FETCH_BYTES_MAX);
        Ok(HeaderStep::More(self))
    }
}

/// The first 24 bytes.
#[derive(Debug, Clone, Copy)]
struct Preamble {
    version: u32,
    tensor_count: u64,
    entry_count: u64,
}

/// What has been understood so far.
#[derive(Debug, Default)]
struct Parsed {
    preamble: Option<Preamble>,
    entries: Vec<(String, MetadataValue)>,
    keys: BTreeSet<String>,
    tensors: Vec<TensorInfo>,
    names: BTreeSet<String>,
}

impl Parsed {
    /// Reads one piece (the preamble, an entry, a tensor) whole or not at all; true when none is left.
    fn advance(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Stop> {
        let Some(preamble) = self.preamble else {
            self.preamble = Some(read_preamble(cursor)?);
            return Ok(false);
        };
        let entries = self.entries.len() as u64;
        if entries < preamble.entry_count {
            let (key, value) = read_entry(cursor, entries)?;
            if !self.keys.insert(key.clone()) {
                return Err(GgufError::DuplicateKey { key }.into());
            }
            self.entries.push((key, value));
            return Ok(false);
        }
        let tensors = self.tensors.len() as u64;
        if tensors < preamble.tensor_count {
            let tensor = read_tensor(cursor, tensors)?;
            if !self.names.insert(tensor.name.clone()) {
                return Err(GgufError::DuplicateTensor { tensor: tensor.name }.into());
            }
            self.tensors.push(tensor);
            return Ok(false);
        }
        Ok(true)
    }

    /// Places the tensors; the header has `header_bytes` bytes.
    fn finish(self, header_bytes: u64, file_bytes: u64) -> Result<Box<GgufHeader>, GgufError> {
        let version = self.preamble.map_or(0, |preamble| preamble.version);
        let metadata = Metadata::new(self.entries);
        let alignment = metadata.get_u32("general.alignment")?.unwrap_or(ALIGNMENT_DEFAULT);
        if !alignment.is_power_of_two() || alignment > ALIGNMENT_MAX {
            return Err(GgufError::Alignment { alignment, limit: ALIGNMENT_MAX });
        }
        let data_start = header_bytes.next_multiple_of(alignment.into());
        let mut tensors = self.tensors;
        for tensor in &mut tensors {
            place_tensor(tensor, data_start, alignment, file_bytes)?;
        }
        Ok(Box::new(GgufHeader { version, metadata, tensors, data_start, file_bytes }))
    }
}

fn read_preamble(cursor: &mut Cursor<'_>) -> Result<Preamble, Stop> {
    let magic = cursor.take(4, "the magic number")?;
    match magic {
        b"GGUF" => {}
        b"FUGG" => return Err(GgufError::BigEndian.into()),
        other => {
            return Err(GgufError::NotGguf { found: other.first_chunk().copied().unwrap_or_default() }.into());
        }
    }
    let version = cursor.u32("the version")?;
    match version {
        2 | 3 => {}
        // A small number in the other byte order has its low half empty.
        swapped if swapped != 0 && swapped & 0xFFFF == 0 => return Err(GgufError::BigEndian.into()),
        version => return Err(GgufError::UnsupportedVersion { version }.into()),
    }
    let tensor_count = cursor.u64("the tensor count")?;
    let entry_count = cursor.u64("the entry count")?;
    let entry_bytes = entry_count.saturating_mul(ENTRY_BYTES_MIN);
    cursor.check_left(entry_bytes, "the metadata")?;
    let tensor_bytes = tensor_count.saturating_mul(TENSOR_BYTES_MIN);
    cursor.check_left(tensor_bytes.saturating_add(entry_bytes), "the tensor directory")?;
    check_limit(entry_count, ENTRY_COUNT_MAX, || "the number of metadata entries".to_owned())?;
    check_limit(tensor_count, TENSOR_COUNT_MAX, || "the number of tensors".to_owned())?;
    Ok(Preamble { version, tensor_count, entry_count })
}

fn read_entry(cursor: &mut Cursor<'_>, index: u64) -> Result<(String, MetadataValue), Stop> {
    let key = cursor.string(KEY_BYTES_MAX, &format!("the key of metadata entry {index}"))?;
    let key = std::str::from_utf8(key).map_err(|_| GgufError::KeyNotUtf8 { index })?.to_owned();
    if key.is_empty() {
        return Err(GgufError::EmptyKey { index }.into());
    }
    let value = read_value(cursor, &key)?;
    Ok((key, value))
}
