//! Byte sources of the page: a picked file, an address that serves ranges, and a file that the browser keeps.
//!
//! None ever holds a model: what the browser hands over is copied into the caller's buffer piece by piece.

use fanlight_actors::source::ByteSource;
use fanlight_messages::error::SourceError;
use futures::channel::oneshot;

mod blob;
mod check;
mod http;
mod stored;
mod timer;

pub use blob::BlobSource;
pub use check::check_hashes;
pub use http::{HttpError, HttpSource};
pub use stored::{ModelStorage, open_model};

/// Fills a buffer from a source by work that goes on while nobody polls for it, as reads ahead must.
async fn by_itself(
    source: impl ByteSource + 'static,
    offset: u64,
    mut buffer: Vec<u8>,
) -> Result<Vec<u8>, SourceError> {
    let bytes = buffer.len() as u64;
    let (told, filled) = oneshot::channel();
    wasm_bindgen_futures::spawn_local(async move {
        let result = source.read_at(offset, &mut buffer).await;
        // Nobody waits any more when the load was abandoned.
        let _ = told.send(result.map(|()| buffer));
    });
    let gone = |_| SourceError::Failed { offset, bytes, reason: "the read was dropped".into() };
    filled.await.map_err(gone)?
}
