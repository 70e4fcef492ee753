//! Brings weights to the device: stretches of the files are read ahead while those before are uploaded.

use std::cell::RefCell;
use std::rc::Rc;

use fanlight_messages::bytes::SharedBytes;
use fanlight_messages::error::{LoadError, SourceError};
use fanlight_messages::protocol::engine::{LoadPhase, LoadProgress};
use fanlight_messages::protocol::submitter::{UploadMatrix, UploadVector};
use fanlight_messages::protocol::telemetry::RecordSample;
use fanlight_models::arch::decode_floats;
use fanlight_pager::{Stretch, Upload, UploadTarget};
use futures::{StreamExt, pin_mut};

use super::ahead::read_ahead;
use super::shell::PagerLinks;
use crate::kit::{Gone, Latch};
use crate::source::NamedSource;

pub(super) fn gone(_: Gone) -> LoadError {
    LoadError::EngineGone { actor: "submitter" }
}

/// Uploads everything; `is_abandoned` is asked before each upload. Returns the bytes that were of use.
///
/// `READS_IN_FLIGHT` buffers of at most `LANDING_BYTES` each exist and one more, whatever the size of the
/// model.
pub(super) async fn upload_all(
    stretches: &[Stretch],
    sources: &[NamedSource],
    links: &PagerLinks,
    progress: &Latch<LoadProgress>,
    is_abandoned: impl Fn() -> bool,
) -> Result<u64, LoadError> {
    let uploads = stretches.iter().flat_map(|stretch| &stretch.uploads);
    let mut told =
        LoadProgress { phase: LoadPhase::Weights, done: 0, total: uploads.map(|upload| upload.bytes).sum() };
    progress.set(told);
    let mut landed_us = links.clock.now_us();
    let spare = &RefCell::new(Vec::new());
    let reads = read_ahead(stretches.iter().map(|stretch| async move {
        let buffer = spare.borrow_mut().pop().unwrap_or_default();
        (stretch, read(stretch, sources, buffer).await)
    }));
    pin_mut!(reads);
    while let Some((stretch, bytes)) = reads.next().await {
        let bytes = Rc::new(bytes?);
        for upload in &stretch.uploads {
            if is_abandoned() {
                return Err(LoadError::Cancelled);
            }
            send(upload, part(stretch, upload, &bytes)?, links).await?;
            told.done += upload.bytes;
            progress.set(told);
        }
        // Every part of it came back and was dropped.
        if let Ok(buffer) = Rc::try_unwrap(bytes) {
            spare.borrow_mut().push(buffer);
        }
        let now_us = links.clock.now_us();
        let elapsed_us = now_us.saturating_sub(landed_us);
        links.telemetry.record(RecordSample::Upload { bytes: stretch.bytes, elapsed_us });
        landed_us = now_us;
    }
    Ok(told.done)
}

/// The bytes of a stretch, in `buffer`.
async fn read(stretch: &Stretch, sources: &[NamedSource], mut buffer: Vec<u8>) -> Result<Vec<u8>, LoadError> {
    let source = sources.get(stretch.shard as usize).ok_or_else(|| LoadError::Header {
        file: String::new(),
        reason: format!("part {} of the model is missing", stretch.shard + 1),
    })?;
    // At most `LANDING_BYTES`: stretches are joined up to that, and uploads are cut to less.
    buffer.resize(stretch.bytes as usize, 0);
    let read = source.read_into(stretch.offset, buffer).await;
    read.map_err(|error| LoadError::Source { file: source.name.clone(), error })
}

/// An upload's part of what was read.
fn part(stretch: &Stretch, upload: &Upload, bytes: &Rc<Vec<u8>>) -> Result<SharedBytes, LoadError> {
    SharedBytes::new(bytes.clone(), stretch.range_of(upload)).ok_or_else(|| LoadError::Source {
        file: format!("part {} of the model", stretch.shard + 1),
        error: SourceError::Short { offset: upload.offset, bytes: upload.bytes, len: bytes.len() as u64 },
    })
}

async fn send(upload: &Upload, bytes: SharedBytes, links: &PagerLinks) -> Result<(), LoadError> {
    match upload.target {
        UploadTarget::Rows { matrix, first_row } => {
            let request = UploadMatrix { matrix, first_row, bytes };
            links.submitter.ask(request).await.map_err(gone)??;
        }
        UploadTarget::Elements { vector, element_offset, tensor_type } => {
            let values = decode_floats(tensor_type, &bytes).ok_or_else(|| LoadError::Model {
                reason: format!("constants of type {tensor_type}, plain floats are wanted"),
            })?;
            let request = UploadVector { vector, element_offset, values };
            links.submitter.ask(request).await.map_err(gone)??;
        }
    }
    Ok(())
}
