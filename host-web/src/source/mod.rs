//! Byte sources of the page: a picked file, an address that serves ranges, and a file that the browser keeps.
//!
//! None ever holds a model: what the browser hands over is copied into the caller's buffer piece by piece.

mod blob;
mod check;
mod http;
mod stored;
mod timer;

pub use blob::BlobSource;
pub use check::check_hashes;
pub use http::{HttpError, HttpSource};
pub use stored::{ModelStorage, open_model};
