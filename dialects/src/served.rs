//! What every dialect tells of the model that is served.

use std::time::{Duration, UNIX_EPOCH};

/// The model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedModel {
    /// The name that responses give.
    pub id: String,
    /// Seconds since 1970 at which its file was written.
    pub created: u64,
    /// Positions of the context that is served.
    pub context_len: u32,
    /// Token ids.
    pub vocabulary_len: u32,
    /// Bytes of its files.
    pub size_bytes: u64,
    /// `general.architecture`.
    pub architecture: String,
    /// Weights.
    pub parameters: u64,
    /// The weight format of most of them, as it is widely written.
    pub quantization: String,
    /// The chat template, or empty.
    pub chat_template: String,
    /// Bytes on the device.
    pub gpu_bytes: u64,
    /// 64 hexadecimal digits that another model does not have.
    pub digest: String,
}

impl ServedModel {
    /// The number of weights, as it is widely written.
    pub(crate) fn parameter_size(&self) -> String {
        match self.parameters {
            count if count >= 1_000_000_000 => format!("{:.1}B", count as f64 / 1e9),
            count => format!("{:.0}M", count as f64 / 1e6),
        }
    }
}

/// Seconds since 1970 as RFC 3339 writes them.
pub(crate) fn timestamp(seconds: u64) -> String {
    // A file's time beyond the year 9999 is no time.
    let time = UNIX_EPOCH + Duration::from_secs(seconds.min(253_402_300_799));
    humantime::format_rfc3339_seconds(time).to_string()
}
