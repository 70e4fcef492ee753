//! One model as one directory of tensors, whether it came in one file or in several.
//!
//! Order and completeness come from the headers (`split.no`, counted from 0, `split.count`); file names,
//! counted from 1, only name what is missing.

use std::collections::BTreeMap;

use thiserror::Error;

use super::header::GgufHeader;
use super::limits::SHARDS_MAX;
use super::metadata::{Metadata, MetadataError};
use super::packaging::in_known_words;
use super::tensor::TensorInfo;

/// Files that do not make one model.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the fields are named in each message")]
pub enum ShardError {
    /// No file.
    #[error("a model wants at least one file and none was given; choose one")]
    NoFile,
    /// A file of a split model is not there.
    #[error("{file} (part {part} of {count}) is missing; add it and try again")]
    Missing { file: String, part: u32, count: u32 },
    /// Two files claim one place.
    #[error("{first} and {second} are both part {part} of the model; remove one")]
    Repeated { first: String, second: String, part: u32 },
    /// A file with another number of parts.
    #[error(
        "{file} belongs to a model of {found} parts, and {wanted} were expected; choose files of one model"
    )]
    CountMismatch { file: String, wanted: u32, found: u32 },
    /// A whole model among several files.
    #[error("{file} is not a part of a split model (no split.count); load it alone")]
    NotAPart { file: String },
    /// A part number or count that cannot be.
    #[error(
        "{file} says it is part {part} of {count}, and 1 to {limit} parts are possible; download it again"
    )]
    PartOutOfRange { file: String, part: u64, count: u32, limit: u32 },
    /// The parts hold more or fewer tensors than promised.
    #[error("the parts hold {found} tensors and split.tensors.count promises {wanted}; download them again")]
    TensorCount { wanted: u32, found: u64 },
    /// A tensor in two parts.
    #[error("tensor {tensor} is in {first} and in {second}; choose files of one model")]
    RepeatedTensor { tensor: String, first: String, second: String },
    /// A split key of the wrong type.
    #[error("{file}: {error}")]
    Metadata { file: String, error: MetadataError },
}

/// A tensor and the file that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelTensor {
    /// Index into [`ModelFile::shards`].
    pub shard: u32,
    /// Name, shape, format and place in that file.
    pub info: TensorInfo,
}

/// A file of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// File name as given.
    pub name: String,
    /// Length of the file.
    pub file_bytes: u64,
}

/// A model: metadata of its first file, tensors of all.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFile {
    /// Files in the order of their parts.
    pub shards: Vec<Shard>,
    /// Metadata of the first part, the one that holds architecture and tokenizer, in the words of the
    /// specification whoever packaged the model.
    pub metadata: Metadata,
    /// Tensors in part order and file order.
    tensors: Vec<ModelTensor>,
    positions: BTreeMap<String, usize>,
}

/// What a header says about its place.
struct Part {
    name: String,
    header: GgufHeader,
    number: u32,
    count: u32,
}

impl ModelFile {
    /// Puts the files of a model together; they may come in any order.
    ///
    /// # Errors
    /// [`ShardError`] when files are missing, repeated or of different models.
    pub fn from_shards(files: Vec<(String, GgufHeader)>) -> Result<Self, ShardError> {
        let alone = files.len() == 1;
        let mut parts = files
            .into_iter()
            .map(|(name, header)| read_part(name, header, alone))
            .collect::<Result<Vec<_>, _>>()?;
        parts.sort_by_key(|part| part.number);
        check_complete(&parts)?;
        let wanted = match parts.first() {
            Some(first) => split_u32(&first.name, &first.header, "split.tensors.count")?,
            None => return Err(ShardError::NoFile),
        };
        let model = Self::join(parts)?;
        match wanted {
            Some(wanted) if u64::from(wanted) != model.tensors.len() as u64 => {
                Err(ShardError::TensorCount { wanted, found: model.tensors.len() as u64 })
            }
            _ => Ok(model),
        }
    }

    fn join(parts: Vec<Part>) -> Result<Self, ShardError> {
        let (mut shards, mut tensors) = (Vec::<Shard>::new(), Vec::<ModelTensor>::new());
        let (mut positions, mut metadata) = (BTreeMap::<String, usize>::new(), None);
        for part in parts {
            for info in part.header.tensors {
                if let Some(position) = positions.insert(info.name.clone(), tensors.len()) {
                    let first = tensors.get(position).and_then(|tensor| shards.get(tensor.shard as usize));
                    return Err(ShardError::RepeatedTensor {
                        tensor: info.name,
                        first: first.map_or_else(|| part.name.clone(), |shard| shard.name.clone()),
                        second: part.name,
                    });
                }
                tensors.push(ModelTensor { shard: part.number, info });
            }
            metadata.get_or_insert(part.header.metadata);
            shards.push(Shard { name: part.name, file_bytes: part.header.file_bytes });
        }
        let metadata = in_known_words(metadata.ok_or(ShardError::NoFile)?, &tensors);
        Ok(Self { shards, metadata, tensors, positions })
    }

    /// Tensors in part order and file order.
    pub fn tensors(&self) -> &[ModelTensor] {
        &self.tensors
    }

    /// The tensor of a name.
    pub fn tensor(&self, name: &str) -> Option<&ModelTensor> {
        self.positions.get(name).and_then(|position| self.tensors.get(*position))
    }
}

fn split_u32(file: &str, header: &GgufHeader, key: &str) -> Result<Option<u32>, ShardError> {
    header.metadata.get_u32(key).map_err(|error| ShardError::Metadata { file: file.to_owned(), error })
}

fn read_part(name: String, header: GgufHeader, alone: bool) -> Result<Part, ShardError> {
    let count = match split_u32(&name, &header, "split.count")? {
        // Some writers mark a whole file with a count of 0.
        None | Some(0) if alone => 1,
        None | Some(0) => return Err(ShardError::NotAPart { file: name }),
        Some(count) => count,
    };
    let number = split_u32(&name, &header, "split.no")?.unwrap_or(0);
    if count > SHARDS_MAX || number >= count {
        let part = u64::from(number) + 1;
        return Err(ShardError::PartOutOfRange { file: name, part, count, limit: SHARDS_MAX });
    }
    Ok(Part { name, header, number, count })
}

/// Checks sorted parts: every number from 0 once.
fn check_complete(parts: &[Part]) -> Result<(), ShardError> {
    let Some(first) = parts.first() else { return Err(ShardError::NoFile) };
    let count = first.count;
    if let Some(other) = parts.iter().find(|part| part.count != count) {
        return Err(ShardError::CountMismatch {
            file: other.name.clone(),
            wanted: count,
            found: other.count,
        });
    }
    for pair in parts.windows(2) {
        if let [a, b] = pair
            && a.number == b.number
        {
            let (first, second) = (a.name.clone(), b.name.clone());
            return Err(ShardError::Repeated { first, second, part: a.number + 1 });
        }
    }
    let missing =
        (0..count).find(|number| parts.get(*number as usize).map(|part| part.number) != Some(*number));
    match missing {
        None => Ok(()),
        Some(number) => Err(ShardError::Missing {
            file: name_of_part(&first.name, number + 1).unwrap_or_else(|| "a file".to_owned()),
            part: number + 1,
            count,
        }),
    }
}

/// Length of `00001-of-00003`.
const PART_LABEL_LEN: usize = 14;

/// Where `NNNNN-of-NNNNN` stands in a file name, with its count.
fn find_part_label(name: &str) -> Option<(usize, u32)> {
    let bytes = name.as_bytes();
    let digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    let start = (0..=bytes.len().checked_sub(PART_LABEL_LEN)?).rev().find(|start| {
        let label = &bytes[*start..*start + PART_LABEL_LEN];
        digits(&label[..5]) && &label[5..9] == b"-of-" && digits(&label[9..])
    })?;
    let count = name.get(start + 9..start + PART_LABEL_LEN)?.parse().ok()?;
    Some((start, count))
}

/// The name of part `part` (from 1) of the model that `name` is a part of.
fn name_of_part(name: &str, part: u32) -> Option<String> {
    let (start, _) = find_part_label(name)?;
    Some(format!("{}{part:05}{}", name.get(..start)?, name.get(start + 5..)?))
}

/// All file names of the split model that a name such as `m-00001-of-00003.gguf` belongs to, in order; `None`
/// for a name of another form.
pub fn shard_names(name: &str) -> Option<Vec<String>> {
    let (_, count) = find_part_label(name)?;
    if count == 0 || count > SHARDS_MAX {
        return None;
    }
    (1..=count).map(|part| name_of_part(name, part)).collect()
}
