//! `fanlight inspect`: metadata, formats and the memory plan, without touching a GPU.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use futures::executor::block_on;

use fanlight_actors::pager::{InspectRequest, inspect as inspect_model};
use fanlight_actors::source::NamedSource;
use fanlight_messages::limits::LANDING_BYTES;
use fanlight_messages::plan::StreamPlan;

use crate::files::open_model;
use crate::options::InspectOptions;
use crate::report::print_text;

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
    print_text(&format!("{inspected}\n"));
    if let Ok((_, plan)) = &inspected.planned
        && let Some(stream) = &plan.stream
        && let Some(source) = sources.first()
    {
        print_text(&format!("{}\n", prediction(stream, source)?));
    }
    Ok(ExitCode::SUCCESS)
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
        "predicted: {:.2} s per pass, reading {:.2} GB/s one piece at a time (measured on {} MiB of this file)",
        stream.pass_bytes as f64 / rate,
        rate / 1e9,
        (READS * piece) >> 20,
    ))
}
