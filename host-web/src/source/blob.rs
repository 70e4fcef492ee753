//! A picked file (`Blob`) as a byte source: slices of each read come one after the other.

use fanlight_actors::source::ByteSource;
use fanlight_messages::error::SourceError;
use js_sys::Uint8Array;
use wasm_bindgen_futures::JsFuture;

use super::by_itself;
use crate::error::text_of;

/// Bytes asked of the browser at once: large enough that the cost of a call vanishes, small enough that the
/// copies which the browser makes, and frees when it likes, stay small beside any model.
const PIECE_BYTES: usize = 4 << 20;

/// A file of the visitor's, or any other blob.
#[derive(Debug, Clone)]
pub struct BlobSource {
    blob: web_sys::Blob,
    len: u64,
}

impl BlobSource {
    /// A source of the blob's bytes.
    pub fn new(blob: web_sys::Blob) -> Self {
        // A size is a whole number below 2^53.
        let len = blob.size() as u64;
        Self { blob, len }
    }

    async fn read_piece(&self, offset: u64, piece: &mut [u8]) -> Result<(), SourceError> {
        let bytes = piece.len() as u64;
        let failed = |reason| SourceError::Failed { offset, bytes, reason };
        let (start, end) = (offset as f64, (offset + bytes) as f64);
        let slice = self.blob.slice_with_f64_and_f64(start, end);
        let slice = slice.map_err(|error| failed(text_of(&error)))?;
        // Fails when the file was changed, moved or deleted after it was picked.
        let content = JsFuture::from(slice.array_buffer()).await;
        let content = Uint8Array::new(&content.map_err(|error| failed(text_of(&error)))?);
        if content.length() as usize != piece.len() {
            return Err(SourceError::Short { offset, bytes, len: offset + u64::from(content.length()) });
        }
        content.copy_to(piece);
        Ok(())
    }
}

impl ByteSource for BlobSource {
    fn len(&self) -> u64 {
        self.len
    }

    async fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SourceError> {
        let mut at = offset;
        for piece in buffer.chunks_mut(PIECE_BYTES) {
            self.read_piece(at, piece).await?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    async fn read_into(&self, offset: u64, buffer: Vec<u8>) -> Result<Vec<u8>, SourceError> {
        by_itself(self.clone(), offset, buffer).await
    }
}
