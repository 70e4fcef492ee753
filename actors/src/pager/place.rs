//! Places a model: buffers, weights in the order of the files, pipelines. Stretches of the files are read ahead
//! while those before are uploaded.

use std::cell::RefCell;
use std::rc::Rc;

use fanlight_messages::bytes::SharedBytes;
use fanlight_messages::device::Quarantined;
use fanlight_messages::error::{LoadError, SourceError};
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::program::{MatrixId, Program, VectorId};
use fanlight_messages::protocol::engine::{LoadPhase, LoadProgress};
use fanlight_models::arch::decode_floats;
use fanlight_models::gguf::ModelFile;
use fanlight_pager::{Stretch, Upload, UploadTarget, join_uploads, plan_uploads};
use futures::{StreamExt, pin_mut};

use super::ahead::read_ahead;
use super::refusals::plan_error;
use crate::kit::Latch;
use crate::source::NamedSource;

/// What a model is placed on: for the pager the submitter, for measurements and tests a device of their own.
#[allow(async_fn_in_trait, reason = "nothing here is Send: an engine lives on one thread")]
pub trait Site {
    /// Creates every buffer of the plan.
    async fn create(&mut self, program: &Rc<Program>, plan: &Rc<GpuPlan>) -> Result<(), LoadError>;

    /// Takes whole rows in file format.
    async fn upload_matrix(
        &mut self,
        matrix: MatrixId,
        first_row: u64,
        bytes: SharedBytes,
    ) -> Result<(), LoadError>;

    /// Takes elements of a constant vector.
    async fn upload_vector(
        &mut self,
        vector: VectorId,
        element_offset: u32,
        values: Vec<f32>,
    ) -> Result<(), LoadError>;

    /// A stretch of the files of this many bytes was read and uploaded.
    fn landed(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Makes what runs the model; returns what must not be used.
    async fn compile(&mut self, progress: &Latch<LoadProgress>) -> Result<Option<Quarantined>, LoadError>;
}

/// A model, where on the device its weights go, and where their bytes come from.
#[derive(Clone)]
pub struct Placement {
    pub(super) program: Rc<Program>,
    pub(super) plan: Rc<GpuPlan>,
    pub(super) sources: Vec<NamedSource>,
    stretches: Rc<[Stretch]>,
}

/// What placing a model came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Bytes of weights that were uploaded.
    pub read_bytes: u64,
    /// What the device must not use.
    pub quarantined: Option<Quarantined>,
}

impl Placement {
    /// By a plan; `sources` are in the order of the file's parts.
    ///
    /// # Errors
    /// When the file lacks a tensor or has it in another size than the program says.
    pub fn new(
        program: Rc<Program>,
        plan: Rc<GpuPlan>,
        file: &ModelFile,
        sources: Vec<NamedSource>,
    ) -> Result<Self, LoadError> {
        let uploads = plan_uploads(&program, &plan, file).map_err(plan_error)?;
        Ok(Self { program, plan, sources, stretches: join_uploads(uploads).into() })
    }
}

/// Creates, uploads and compiles. `is_abandoned` is asked before each upload and at the end. After an error
/// the site holds what it held then.
///
/// # Errors
/// When a source or the site fails, or the load was abandoned.
pub async fn place_model(
    site: &mut impl Site,
    placement: &Placement,
    progress: &Latch<LoadProgress>,
    is_abandoned: impl Fn() -> bool,
) -> Result<Placed, LoadError> {
    site.create(&placement.program, &placement.plan).await?;
    let read_bytes = upload_all(site, placement, progress, &is_abandoned).await?;
    let quarantined = site.compile(progress).await?;
    if is_abandoned() { Err(LoadError::Cancelled) } else { Ok(Placed { read_bytes, quarantined }) }
}

/// Uploads everything; returns the bytes that were of use.
///
/// `READS_IN_FLIGHT` buffers of at most `LANDING_BYTES` each exist and one more, whatever the size of the
/// model.
async fn upload_all(
    site: &mut impl Site,
    placement: &Placement,
    progress: &Latch<LoadProgress>,
    is_abandoned: impl Fn() -> bool,
) -> Result<u64, LoadError> {
    let Placement { stretches, sources, .. } = placement;
    let uploads = stretches.iter().flat_map(|stretch| &stretch.uploads);
    let mut told =
        LoadProgress { phase: LoadPhase::Weights, done: 0, total: uploads.map(|upload| upload.bytes).sum() };
    progress.set(told);
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
            send(site, upload, part(stretch, upload, &bytes)?).await?;
            told.done += upload.bytes;
            progress.set(told);
        }
        // Every part of it came back and was dropped.
        if let Ok(buffer) = Rc::try_unwrap(bytes) {
            spare.borrow_mut().push(buffer);
        }
        site.landed(stretch.bytes);
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

async fn send(site: &mut impl Site, upload: &Upload, bytes: SharedBytes) -> Result<(), LoadError> {
    match upload.target {
        UploadTarget::Rows { matrix, first_row } => site.upload_matrix(matrix, first_row, bytes).await,
        UploadTarget::Elements { vector, element_offset, tensor_type } => {
            let values = decode_floats(tensor_type, &bytes).ok_or_else(|| LoadError::Model {
                reason: format!("constants of type {tensor_type}, plain floats are wanted"),
            })?;
            site.upload_vector(vector, element_offset, values).await
        }
    }
}
