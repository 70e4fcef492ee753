//! Which layers see a window of positions only.

use super::error::ArchError;
use super::hyper::Hyperparameters;
use crate::gguf::MetadataValue;

/// Positions that windowed layers see; `None` when the file has no windows.
pub(super) fn window(hyper: &Hyperparameters<'_>) -> Result<Option<u32>, ArchError> {
    Ok(hyper.u32("attention.sliding_window")?.filter(|window| *window > 0))
}

/// True for each layer with a window: by a list in the file, or by a period in it, or by the usual period.
/// Of a period's layers the last one sees everything; a period of 0 means that none does.
pub(super) fn windowed_layers(
    hyper: &Hyperparameters<'_>,
    period_default: u32,
) -> Result<Vec<bool>, ArchError> {
    let name = "attention.sliding_window_pattern";
    let (metadata, key) = (hyper.metadata(), hyper.key(name));
    let layers = hyper.attention.len();
    if let Some(MetadataValue::Array(_)) = metadata.get(&key) {
        let list = metadata.get_bool_array(&key)?.unwrap_or_default();
        if list.len() != hyper.block_count as usize {
            return Err(ArchError::ListLength { key, found: list.len(), wanted: hyper.block_count as usize });
        }
        return Ok(list.iter().copied().take(layers).collect());
    }
    let period = hyper.u32(name)?.unwrap_or(period_default) as usize;
    Ok((0..layers).map(|layer| period == 0 || layer % period < period - 1).collect())
}
