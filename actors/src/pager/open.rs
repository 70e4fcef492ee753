//! From byte sources to a model: headers, small tensors, program.

use std::rc::Rc;

use fanlight_messages::error::LoadError;
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::program::Program;
use fanlight_models::arch::{self, SmallTensors};
use fanlight_models::gguf::{GgufHeader, HeaderReader, HeaderStep, ModelFile};
use fanlight_models::spec::ModelSpec;

use super::place::Placement;
use crate::source::NamedSource;

/// A model whose headers were read.
pub struct OpenedModel {
    /// Metadata and tensors.
    pub file: ModelFile,
    /// What it computes.
    pub program: Rc<Program>,
    /// Sources in the order of the file's parts.
    pub sources: Vec<NamedSource>,
}

impl OpenedModel {
    /// Where its weights go by a plan.
    ///
    /// # Errors
    /// As [`Placement::new`].
    pub fn placement(self, plan: GpuPlan) -> Result<Placement, LoadError> {
        Placement::new(self.program, Rc::new(plan), &self.file, self.sources)
    }
}

fn model_error(error: impl std::fmt::Display) -> LoadError {
    LoadError::Model { reason: error.to_string() }
}

/// Reads the header of one file.
///
/// # Errors
/// [`LoadError::Source`] when bytes cannot be read, [`LoadError::Header`] when they are not a usable header.
pub async fn read_header(source: &NamedSource) -> Result<GgufHeader, LoadError> {
    let header_error = |error: &dyn std::fmt::Display| LoadError::Header {
        file: source.name.clone(),
        reason: error.to_string(),
    };
    let mut reader = HeaderReader::new(source.len());
    let mut buffer = Vec::new();
    loop {
        let range = reader.wanted_range();
        // The reader bounds what it wants by its own limits and by the length of the file.
        buffer.resize((range.end - range.start) as usize, 0);
        let read = source.read_at(range.start, &mut buffer).await;
        read.map_err(|error| LoadError::Source { file: source.name.clone(), error })?;
        match reader.feed(&buffer).map_err(|error| header_error(&error))? {
            HeaderStep::More(more) => reader = more,
            HeaderStep::Done(header) => return Ok(*header),
        }
    }
}

/// Reads all headers; the sources come back in the order of the model's parts.
pub(super) async fn read_files(
    sources: Vec<NamedSource>,
) -> Result<(ModelFile, Vec<NamedSource>), LoadError> {
    let mut headers = Vec::with_capacity(sources.len());
    for (index, source) in sources.iter().enumerate() {
        if sources[..index].iter().any(|other| other.name == source.name) {
            let reason = "two files of this name were given; choose each file once".into();
            return Err(LoadError::Header { file: source.name.clone(), reason });
        }
        headers.push((source.name.clone(), read_header(source).await?));
    }
    let first = sources.first().map(|source| source.name.clone()).unwrap_or_default();
    let file = ModelFile::from_shards(headers)
        .map_err(|error| LoadError::Header { file: first, reason: error.to_string() })?;
    let sources = in_part_order(&file, sources);
    Ok((file, sources))
}

/// Writes the program of a model.
pub(super) async fn read_program(file: &ModelFile, sources: &[NamedSource]) -> Result<Program, LoadError> {
    let spec = arch::model_spec(file).map_err(model_error)?;
    let small = read_small_tensors(&spec, file, sources).await?;
    arch::program(&spec, &small).map_err(model_error)
}

/// Reads all headers and writes the program; no weight is read.
///
/// # Errors
/// When the files cannot be read, are no model, or one that is not supported.
pub async fn open_model(sources: Vec<NamedSource>) -> Result<OpenedModel, LoadError> {
    let (file, sources) = read_files(sources).await?;
    let program = Rc::new(read_program(&file, &sources).await?);
    Ok(OpenedModel { file, program, sources })
}

/// The sources in the order in which the headers say the parts come.
fn in_part_order(file: &ModelFile, sources: Vec<NamedSource>) -> Vec<NamedSource> {
    let by_name = |name: &str| sources.iter().find(|source| source.name == name).cloned();
    file.shards.iter().filter_map(|shard| by_name(&shard.name)).collect()
}

/// The few values that shape the program itself.
async fn read_small_tensors(
    spec: &ModelSpec,
    file: &ModelFile,
    sources: &[NamedSource],
) -> Result<SmallTensors, LoadError> {
    let mut small = SmallTensors::new();
    for part in spec.small_tensors() {
        let Some(tensor) = part.tensor.as_deref().and_then(|name| file.tensor(name)) else { continue };
        let Some(source) = sources.get(tensor.shard as usize) else { continue };
        // One element per rotated pair or so; the bound keeps a hostile directory from asking for gigabytes.
        if tensor.info.bytes > SMALL_TENSOR_BYTES_MAX {
            return Err(LoadError::Model {
                reason: format!(
                    "tensor {} has {} bytes, at most {SMALL_TENSOR_BYTES_MAX} are expected",
                    tensor.info.name, tensor.info.bytes
                ),
            });
        }
        let mut bytes = vec![0; tensor.info.bytes as usize];
        let read = source.read_at(tensor.info.offset, &mut bytes).await;
        read.map_err(|error| LoadError::Source { file: source.name.clone(), error })?;
        if let Some(values) = arch::decode_floats(tensor.info.tensor_type, &bytes) {
            small.insert(tensor.info.name.clone(), values);
        }
    }
    Ok(small)
}

/// Bytes of a small tensor: sixty-four times the frequency divisors of the longest head.
const SMALL_TENSOR_BYTES_MAX: u64 = 64 << 10;
