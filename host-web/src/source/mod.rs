//! Byte sources of the page: a picked file, and an address that serves ranges.
//!
//! Neither ever holds a model: what the browser hands over is copied into the caller's buffer piece by piece.

mod blob;
mod http;
mod timer;

pub use blob::BlobSource;
pub use http::{HttpError, HttpSource, open_model};
