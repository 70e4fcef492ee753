//! The tensor directory: names, shapes, formats and places of the weights.

use fanlight_messages::TensorType;

use super::cursor::{Cursor, Stop};
use super::error::GgufError;
use super::limits::{DIMENSIONS_MAX, TENSOR_NAME_BYTES_MAX};

/// A tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Unique name.
    pub name: String,
    /// One to four dimensions, none 0, the first the length of a row.
    pub dims: Vec<u64>,
    /// Format of the weights.
    pub tensor_type: TensorType,
    /// First byte, counted from the start of the file.
    pub offset: u64,
    /// Length in bytes; `offset + bytes` lies within the file.
    pub bytes: u64,
}

impl TensorInfo {
    /// Weights.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }
}

/// Reads directory entry `index`, its offset still counted from the start of the data.
pub(super) fn read_tensor(cursor: &mut Cursor<'_>, index: u64) -> Result<TensorInfo, Stop> {
    let what = format!("directory entry {index}");
    let name = cursor.string(TENSOR_NAME_BYTES_MAX, &format!("the name of tensor {index}"))?;
    let name = std::str::from_utf8(name).map_err(|_| GgufError::TensorNameNotUtf8 { index })?.to_owned();
    if name.is_empty() {
        return Err(GgufError::EmptyTensorName { index }.into());
    }
    let count = cursor.u32(&what)?;
    if count == 0 || count > DIMENSIONS_MAX {
        return Err(GgufError::DimensionCount { tensor: name, count, limit: DIMENSIONS_MAX }.into());
    }
    let mut dims = Vec::with_capacity(count as usize);
    for _ in 0..count {
        dims.push(cursor.u64(&what)?);
    }
    let type_id = cursor.u32(&what)?;
    let offset = cursor.u64(&what)?;
    if dims.contains(&0) {
        return Err(GgufError::ZeroDimension { tensor: name, dims }.into());
    }
    let Some(tensor_type) = TensorType::from_ggml_id(type_id) else {
        return Err(GgufError::UnsupportedType { tensor: name, id: type_id }.into());
    };
    let bytes = tensor_bytes(&name, &dims, tensor_type)?;
    Ok(TensorInfo { name, dims, tensor_type, offset, bytes })
}

fn tensor_bytes(name: &str, dims: &[u64], tensor_type: TensorType) -> Result<u64, GgufError> {
    let overflow = || GgufError::SizeOverflow { tensor: name.to_owned(), dims: dims.to_vec() };
    dims.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim)).ok_or_else(overflow)?;
    let columns = dims.first().copied().unwrap_or(0);
    if !columns.is_multiple_of(tensor_type.block_len()) {
        return Err(GgufError::PartialBlock {
            tensor: name.to_owned(),
            type_name: tensor_type.name(),
            columns,
            block_len: tensor_type.block_len(),
        });
    }
    let row_bytes = tensor_type.row_bytes(columns).ok_or_else(overflow)?;
    let rows = dims.iter().skip(1).product::<u64>();
    row_bytes.checked_mul(rows).ok_or_else(overflow)
}

/// Turns the offset of `tensor` into one from the start of the file and checks that its weights are in the
/// file.
pub(super) fn place_tensor(
    tensor: &mut TensorInfo,
    data_start: u64,
    alignment: u32,
    file_bytes: u64,
) -> Result<(), GgufError> {
    if !tensor.offset.is_multiple_of(alignment.into()) {
        return Err(GgufError::Misaligned { tensor: tensor.name.clone(), offset: tensor.offset, alignment });
    }
    let first = data_start.checked_add(tensor.offset);
    let end = first.and_then(|first| first.checked_add(tensor.bytes));
    match (first, end) {
        (Some(first), Some(end)) if end <= file_bytes => tensor.offset = first,
        _ => {
            return Err(GgufError::BeyondFile {
                tensor: tensor.name.clone(),
                offset: tensor.offset,
                bytes: tensor.bytes,
                file_bytes,
            });
        }
    }
    Ok(())
}
