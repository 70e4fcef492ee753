//! `fanlight inspect`: metadata, formats and the memory plan, without touching a GPU.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use futures::executor::block_on;
use serde_json::{Value, json};

use fanlight_actors::pager::{InspectRequest, Inspection, TensorInfo, inspect as inspect_model};
use fanlight_actors::source::NamedSource;
use fanlight_messages::limits::LANDING_BYTES;
use fanlight_messages::plan::StreamPlan;

use crate::files::open_model;
use crate::options::InspectOptions;
use crate::report::{self, print_json, print_text};
use crate::terminal;

/// Reads that a disk's rate is measured with.
const READS: u64 = 4;

/// Runs the command.
pub fn inspect(options: &InspectOptions) -> Result<ExitCode> {
    let sources = open_model(&options.model, options.budget.reads())?;
    let request = InspectRequest {
        context_len: options.context,
        batch_tokens: options.budget.batch_tokens(options.chunk),
        kv_format: options.kv.into(),
        budget: options.budget.budget(),
    };
    let inspected = block_on(inspect_model(sources.clone(), request));
    let inspected = inspected.with_context(|| options.model.display().to_string())?;
    let code = if inspected.problem().is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    if options.json {
        print_json(&inspection_json(&inspected, options.tensors));
        return Ok(code);
    }
    print_text(&terminal::plain(&format!("{inspected}\n")));
    if options.tensors {
        inspected.tensors.iter().for_each(|tensor| {
            print_text(&terminal::plain(&format!("{}\n", tensor_line(tensor))));
        });
    }
    if let Ok((_, plan)) = &inspected.planned
        && let Some(stream) = &plan.stream
        && let Some(source) = sources.first()
    {
        print_text(&format!("{}\n", prediction(stream, source)?));
    }
    Ok(code)
}

fn tensor_line(tensor: &TensorInfo) -> String {
    let TensorInfo { name, dims, tensor_type, offset, bytes } = tensor;
    let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
    format!("{name}  {}  {}  {bytes} bytes at {offset}", tensor_type.name(), dims.join(" × "))
}

/// What scripts read: the summary, the plan or the reason why there is none, and what a person should know.
fn inspection_json(inspected: &Inspection, with_tensors: bool) -> Value {
    let summary = &inspected.summary;
    let types: Vec<Value> = summary
        .types
        .iter()
        .map(|used| json!({ "type": used.tensor_type.name(), "tensors": used.tensors, "bytes": used.bytes }))
        .collect();
    let plan = inspected.planned.as_ref().ok().map(|(_, plan)| {
        json!({
            "context": plan.request.context_len,
            "batch": plan.request.batch_tokens,
            "gpu_bytes": plan.total_bytes(),
            "pages": plan.pages.len(),
            "pass_bytes": plan.stream.as_ref().map(|stream| stream.pass_bytes),
        })
    });
    let mut json = json!({
        "name": summary.name,
        "architecture": summary.architecture,
        "parameters": summary.parameters,
        "weight_bytes": summary.weight_bytes,
        "types": types,
        "layers": summary.layers,
        "context_max": summary.context_len,
        "vocabulary": summary.vocabulary_len,
        "chat_template": inspected.has_chat_template(),
        "warnings": inspected.text.as_ref().map_or(Value::Null, |warnings| report::warnings_json(warnings)),
        "problem": inspected.problem().map(ToString::to_string),
        "plan": plan,
    });
    if with_tensors {
        let tensor = |tensor: &TensorInfo| {
            let TensorInfo { name, dims, tensor_type, offset, bytes } = tensor;
            let tensor_type = tensor_type.name();
            json!({ "name": name, "dims": dims, "type": tensor_type, "offset": offset, "bytes": bytes })
        };
        json["tensors"] = inspected.tensors.iter().map(tensor).collect();
    }
    json
}

/// How long a pass will take: reading is all that counts where weights stream.
fn prediction(stream: &StreamPlan, source: &NamedSource) -> Result<String> {
    let piece = LANDING_BYTES.min(source.len());
    let mut buffer = vec![0; piece as usize];
    let started = Instant::now();
    for read in 0..READS {
        // Apart from each other, as the pages of a pass are.
        buffer = block_on(source.read_into((source.len() - piece) / READS * read, buffer))?;
    }
    let rate = (READS * piece) as f64 / started.elapsed().as_secs_f64();
    Ok(format!(
        "predicted: {:.2} s per pass at {:.2} GB/s, one read at a time (measured on {} MiB of this file)",
        stream.pass_bytes as f64 / rate,
        rate / 1e9,
        (READS * piece) >> 20,
    ))
}
