//! Ids of pieces under a metadata key.

use super::error::TokenizerError;
use crate::gguf::{Metadata, MetadataValue};

/// The ids under a key that holds one or an array of them; empty when the key is absent. The largest u32
/// means "none", as converters write it.
pub(super) fn piece_ids(
    metadata: &Metadata,
    key: &'static str,
    len: usize,
) -> Result<Vec<u32>, TokenizerError> {
    let ids = match metadata.get(key) {
        Some(MetadataValue::Array(_)) => metadata.get_u32_array(key)?.unwrap_or_default(),
        _ => metadata.get_u32(key)?.into_iter().collect(),
    };
    let ids: Vec<u32> = ids.into_iter().filter(|&id| id != u32::MAX).collect();
    match ids.iter().find(|&&id| id as usize >= len) {
        Some(&id) => Err(TokenizerError::IdOutOfRange { key, id, len }),
        None => Ok(ids),
    }
}
