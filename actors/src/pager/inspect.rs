//! What a model file holds and what it would take on a device, without a device.

use std::fmt;

use fanlight_messages::error::LoadError;
use fanlight_messages::plan::{BINDING_BYTES_MAX, BUCKET_MAX, Budget, GpuPlan, KvFormat, PlanRequest};
use fanlight_messages::program::Program;
use fanlight_models::arch::{ModelSummary, ProgramText};
use fanlight_models::gguf::{Metadata, MetadataArray, MetadataValue};
use fanlight_pager::{PlanTable, plan_resident, plan_within};

use super::open::{read_files, read_program};
use super::refusals::residency_error;
use crate::engine::context_len;
use crate::source::NamedSource;

/// What the plan is to be for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectRequest {
    /// Positions of the context; `None` takes the default or the file's, whichever is less.
    pub context_len: Option<u32>,
    /// Prompt tokens per batch.
    pub batch_tokens: u32,
    /// Cache format.
    pub kv_format: KvFormat,
    /// What the plan may take; `None` leaves all weights on the device.
    pub budget: Option<Budget>,
}

/// A model file, looked into. `Display` shows metadata, formats and the memory plan.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// The file at a glance.
    pub summary: ModelSummary,
    /// All metadata.
    pub metadata: Metadata,
    /// Program and plan, or why there is none: unsupported models can be looked into as well.
    pub planned: Result<(Program, GpuPlan), LoadError>,
}

/// Looks into a model; no weight is read.
///
/// # Errors
/// [`LoadError::Source`] and [`LoadError::Header`] when there is nothing to look into.
pub async fn inspect(sources: Vec<NamedSource>, request: InspectRequest) -> Result<Inspection, LoadError> {
    let (file, sources) = read_files(sources).await?;
    let name = sources.first().map(|source| source.name.clone()).unwrap_or_default();
    let header_error = |error: &dyn fmt::Display| LoadError::Header { file: name, reason: error.to_string() };
    let summary = ModelSummary::new(&file).map_err(|error| header_error(&error))?;
    let program = read_program(&file, &sources).await;
    let planned = program.and_then(|program| {
        let plan = plan(&program, &request, BINDING_BYTES_MAX)?;
        Ok((program, plan))
    });
    Ok(Inspection { summary, metadata: file.metadata, planned })
}

/// Plans a model's memory on a device of this binding limit.
///
/// # Errors
/// [`LoadError::OverBudget`] for a budget that is too small, else what cannot be planned.
pub fn plan(
    program: &Program,
    request: &InspectRequest,
    binding_bytes_max: u64,
) -> Result<GpuPlan, LoadError> {
    let plan_request = PlanRequest {
        context_len: context_len(request.context_len, program.context_len_max)?,
        batch_tokens: request.batch_tokens,
        logits_rows: BUCKET_MAX,
        kv_format: request.kv_format,
        binding_bytes_max,
    };
    let plan = match request.budget {
        None => plan_resident(program, plan_request),
        Some(budget) => plan_within(program, plan_request, budget),
    };
    plan.map_err(residency_error)
}

impl Inspection {
    /// The program as text, where there is one.
    pub fn program_text(&self) -> Option<String> {
        self.planned.as_ref().ok().map(|(program, _)| ProgramText(program).to_string())
    }
}

/// Bytes of a text value that are shown; templates are longer.
const TEXT_BYTES_SHOWN: usize = 100;

/// A metadata value on one line; arrays by type and length.
fn value_text(value: &MetadataValue) -> String {
    match value {
        MetadataValue::U8(value) => value.to_string(),
        MetadataValue::I8(value) => value.to_string(),
        MetadataValue::U16(value) => value.to_string(),
        MetadataValue::I16(value) => value.to_string(),
        MetadataValue::U32(value) => value.to_string(),
        MetadataValue::I32(value) => value.to_string(),
        MetadataValue::U64(value) => value.to_string(),
        MetadataValue::I64(value) => value.to_string(),
        MetadataValue::F32(value) => value.to_string(),
        MetadataValue::F64(value) => value.to_string(),
        MetadataValue::Bool(value) => value.to_string(),
        MetadataValue::String(bytes) => text_start(bytes),
        MetadataValue::Array(array) => array_text(array),
    }
}

/// The start of a text, escaped, so that a hostile file cannot command a terminal.
fn text_start(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(TEXT_BYTES_SHOWN)];
    let text = String::from_utf8_lossy(shown);
    let rest =
        if bytes.len() > shown.len() { format!(" … ({} bytes)", bytes.len()) } else { String::new() };
    format!("{}{rest}", text.escape_debug())
}

fn array_text(array: &MetadataArray) -> String {
    format!("[{} × {}]", array.len(), array.element_type_name())
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in self.metadata.entries() {
            writeln!(f, "{} = {}", key.escape_debug(), value_text(value))?;
        }
        writeln!(f, "\n{}", self.summary)?;
        match &self.planned {
            Ok((program, plan)) => {
                let request = &plan.request;
                writeln!(
                    f,
                    "gpu plan: context {} ({} cache rows), prompt batch {}, {} pages",
                    request.context_len,
                    plan.cache_rows,
                    request.batch_tokens,
                    plan.pages.len()
                )?;
                write!(f, "{}", PlanTable { program, plan })?;
                let Some(stream) = &plan.stream else { return Ok(()) };
                write!(
                    f,
                    "\nstreams: {} pages through {} slots of {} bytes, {} bytes of the file per pass{}",
                    stream.pages.len(),
                    stream.slots,
                    stream.slot_bytes,
                    stream.pass_bytes,
                    if stream.gathers.is_some() { ", and embedding rows as they are needed" } else { "" }
                )
            }
            Err(error) => write!(f, "no gpu plan: {error}"),
        }
    }
}
