//! Brings weights to the device: one piece is read while the one before is uploaded.

use fanlight_messages::error::LoadError;
use fanlight_messages::protocol::engine::{LoadPhase, LoadProgress};
use fanlight_messages::protocol::submitter::{UploadMatrix, UploadVector};
use fanlight_messages::protocol::telemetry::RecordSample;
use fanlight_models::arch::decode_floats;
use fanlight_pager::{Upload, UploadTarget};

use super::shell::PagerLinks;
use crate::kit::{Answer, Gone, Latch};
use crate::source::NamedSource;

/// The submitter's answer to an upload that is under way.
type Uploading = Answer<Result<Vec<u8>, fanlight_messages::error::DeviceError>>;

pub(super) fn gone(_: Gone) -> LoadError {
    LoadError::EngineGone { actor: "submitter" }
}

/// Uploads everything; `is_abandoned` is asked before each piece. Returns the bytes read.
///
/// Two buffers of at most one landing buffer each exist, whatever the size of the model.
pub(super) async fn upload_all(
    uploads: &[Upload],
    sources: &[NamedSource],
    links: &PagerLinks,
    progress: &Latch<LoadProgress>,
    is_abandoned: impl Fn() -> bool,
) -> Result<u64, LoadError> {
    let total = uploads.iter().map(|upload| upload.bytes).sum();
    let mut done = 0;
    let mut spare = Vec::new();
    let mut under_way: Option<(Uploading, u64, u64)> = None;
    let phase = LoadPhase::Weights;
    progress.set(LoadProgress { phase, done, total });
    for upload in uploads {
        if is_abandoned() {
            return Err(LoadError::Cancelled);
        }
        let started_us = links.clock.now_us();
        let mut bytes = std::mem::take(&mut spare);
        read(upload, sources, &mut bytes).await?;
        if let Some(before) = under_way.take() {
            spare = land(before, links).await?;
        }
        match upload.target {
            UploadTarget::Rows { matrix, first_row } => {
                let request = UploadMatrix { matrix, first_row, bytes };
                let answer = links.submitter.start(request, Into::into).await.map_err(gone)?;
                under_way = Some((answer, upload.bytes, started_us));
            }
            UploadTarget::Elements { vector, element_offset, tensor_type } => {
                let values = decode_floats(tensor_type, &bytes).ok_or_else(|| LoadError::Model {
                    reason: format!("constants of type {tensor_type}, plain floats are wanted"),
                })?;
                spare = bytes;
                let request = UploadVector { vector, element_offset, values };
                links.submitter.ask(request).await.map_err(gone)??;
            }
        }
        done += upload.bytes;
        progress.set(LoadProgress { phase, done, total });
    }
    if let Some(last) = under_way {
        land(last, links).await?;
    }
    Ok(done)
}

async fn read(upload: &Upload, sources: &[NamedSource], bytes: &mut Vec<u8>) -> Result<(), LoadError> {
    let source = sources.get(upload.shard as usize).ok_or_else(|| LoadError::Header {
        file: String::new(),
        reason: format!("part {} of the model is missing", upload.shard + 1),
    })?;
    // At most `LANDING_BYTES`: the upload plan cuts pieces to that.
    bytes.resize(upload.bytes as usize, 0);
    let read = source.read_at(upload.offset, bytes).await;
    read.map_err(|error| LoadError::Source { file: source.name.clone(), error })
}

/// Waits for an upload and gets its buffer back.
async fn land(
    (answer, bytes, started_us): (Uploading, u64, u64),
    links: &PagerLinks,
) -> Result<Vec<u8>, LoadError> {
    let buffer = answer.wait().await.map_err(gone)??;
    let elapsed_us = links.clock.now_us().saturating_sub(started_us);
    links.telemetry.record(RecordSample::Upload { bytes, elapsed_us });
    Ok(buffer)
}
