//! Reads one metadata value.

use super::cursor::{Cursor, Stop, check_limit};
use super::error::GgufError;
use super::limits::{ARRAY_DEPTH_MAX, ARRAY_LEN_MAX, HEADER_BYTES_MAX, STRING_BYTES_MAX};
use super::metadata::{MetadataArray, MetadataValue};

/// Type ids of the specification.
mod id {
    pub const U8: u32 = 0;
    pub const I8: u32 = 1;
    pub const U16: u32 = 2;
    pub const I16: u32 = 3;
    pub const U32: u32 = 4;
    pub const I32: u32 = 5;
    pub const F32: u32 = 6;
    pub const BOOL: u32 = 7;
    pub const STRING: u32 = 8;
    pub const ARRAY: u32 = 9;
    pub const U64: u32 = 10;
    pub const I64: u32 = 11;
    pub const F64: u32 = 12;
}

/// Bytes of the smallest string: its length.
const STRING_BYTES_MIN: u64 = 8;
/// Bytes of the smallest array: element type and count.
const ARRAY_BYTES_MIN: u64 = 12;

/// A whole tokenizer in its own format, which the specification allows beside the lists. Nothing here reads
/// it, so it is not kept, and only the header's own limit bounds it.
const UNREAD_TOKENIZER: &str = "tokenizer.huggingface.json";

/// Reads the type and the value of `key`.
pub(super) fn read_value(cursor: &mut Cursor<'_>, key: &str) -> Result<MetadataValue, Stop> {
    let type_id = cursor.u32(key)?;
    Ok(match type_id {
        id::STRING if key == UNREAD_TOKENIZER => {
            cursor.string(HEADER_BYTES_MAX, key)?;
            MetadataValue::String(b"(not kept)".to_vec())
        }
        id::STRING => MetadataValue::String(cursor.string(STRING_BYTES_MAX, key)?.to_vec()),
        id::ARRAY => MetadataValue::Array(read_array(cursor, key, 1)?),
        scalar => first_of(read_elements(cursor, key, scalar, 1)?)
            .ok_or_else(|| GgufError::UnknownValueType { key: key.to_owned(), id: type_id })?,
    })
}

/// The only element of an array of one scalar.
fn first_of(array: MetadataArray) -> Option<MetadataValue> {
    Some(match array {
        MetadataArray::U8(v) => MetadataValue::U8(*v.first()?),
        MetadataArray::I8(v) => MetadataValue::I8(*v.first()?),
        MetadataArray::U16(v) => MetadataValue::U16(*v.first()?),
        MetadataArray::I16(v) => MetadataValue::I16(*v.first()?),
        MetadataArray::U32(v) => MetadataValue::U32(*v.first()?),
        MetadataArray::I32(v) => MetadataValue::I32(*v.first()?),
        MetadataArray::U64(v) => MetadataValue::U64(*v.first()?),
        MetadataArray::I64(v) => MetadataValue::I64(*v.first()?),
        MetadataArray::F32(v) => MetadataValue::F32(*v.first()?),
        MetadataArray::F64(v) => MetadataValue::F64(*v.first()?),
        MetadataArray::Bool(v) => MetadataValue::Bool(*v.first()?),
        MetadataArray::String(_) | MetadataArray::Array(_) => return None,
    })
}

fn read_array(cursor: &mut Cursor<'_>, key: &str, depth: u32) -> Result<MetadataArray, Stop> {
    check_limit(depth.into(), ARRAY_DEPTH_MAX.into(), || format!("the depth of arrays in {key}"))?;
    let element_type = cursor.u32(key)?;
    let count = cursor.u64(key)?;
    let element_bytes_min = match element_type {
        id::STRING => STRING_BYTES_MIN,
        id::ARRAY => ARRAY_BYTES_MIN,
        _ => 1,
    };
    cursor.check_left(count.saturating_mul(element_bytes_min), key)?;
    check_limit(count, ARRAY_LEN_MAX, || format!("the length of array {key}"))?;
    // Room only for what the bytes at hand can hold: a claim alone allocates nothing.
    let room = usize::try_from(count.min(cursor.at_hand_bytes() / element_bytes_min)).unwrap_or(0);
    match element_type {
        id::STRING => {
            let mut strings = Vec::with_capacity(room);
            for _ in 0..count {
                strings.push(cursor.string(STRING_BYTES_MAX, key)?.to_vec());
            }
            Ok(MetadataArray::String(strings))
        }
        id::ARRAY => {
            let mut arrays = Vec::with_capacity(room);
            for _ in 0..count {
                arrays.push(read_array(cursor, key, depth + 1)?);
            }
            Ok(MetadataArray::Array(arrays))
        }
        scalar => read_elements(cursor, key, scalar, count),
    }
}

/// Takes `count` elements of `N` bytes each.
fn scalars<const N: usize, T>(
    cursor: &mut Cursor<'_>,
    key: &str,
    count: u64,
    decode: fn([u8; N]) -> T,
) -> Result<Vec<T>, Stop> {
    let bytes = cursor.take(count.saturating_mul(N as u64), key)?;
    Ok(bytes.as_chunks::<N>().0.iter().map(|chunk| decode(*chunk)).collect())
}

fn read_elements(
    cursor: &mut Cursor<'_>,
    key: &str,
    type_id: u32,
    count: u64,
) -> Result<MetadataArray, Stop> {
    Ok(match type_id {
        id::U8 => MetadataArray::U8(scalars(cursor, key, count, u8::from_le_bytes)?),
        id::I8 => MetadataArray::I8(scalars(cursor, key, count, i8::from_le_bytes)?),
        id::U16 => MetadataArray::U16(scalars(cursor, key, count, u16::from_le_bytes)?),
        id::I16 => MetadataArray::I16(scalars(cursor, key, count, i16::from_le_bytes)?),
        id::U32 => MetadataArray::U32(scalars(cursor, key, count, u32::from_le_bytes)?),
        id::I32 => MetadataArray::I32(scalars(cursor, key, count, i32::from_le_bytes)?),
        id::U64 => MetadataArray::U64(scalars(cursor, key, count, u64::from_le_bytes)?),
        id::I64 => MetadataArray::I64(scalars(cursor, key, count, i64::from_le_bytes)?),
        id::F32 => MetadataArray::F32(scalars(cursor, key, count, f32::from_le_bytes)?),
        id::F64 => MetadataArray::F64(scalars(cursor, key, count, f64::from_le_bytes)?),
        id::BOOL => {
            let bytes = scalars(cursor, key, count, u8::from_le_bytes)?;
            if let Some(value) = bytes.iter().copied().find(|byte| *byte > 1) {
                return Err(GgufError::InvalidBool { key: key.to_owned(), value }.into());
            }
            MetadataArray::Bool(bytes.into_iter().map(|byte| byte == 1).collect())
        }
        _ => return Err(GgufError::UnknownValueType { key: key.to_owned(), id: type_id }.into()),
    })
}
