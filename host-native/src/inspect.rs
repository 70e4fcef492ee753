//! `fanlight inspect`: metadata, formats and the memory plan, without touching a GPU.

use std::process::ExitCode;

use anyhow::{Context, Result};
use futures::executor::block_on;

use fanlight_actors::pager::{InspectRequest, inspect as inspect_model};

use crate::files::{Reads, open_model};
use crate::options::InspectOptions;
use crate::report::print_text;

/// Runs the command.
pub fn inspect(options: &InspectOptions) -> Result<ExitCode> {
    let sources = open_model(&options.model, Reads::Cached)?;
    let request = InspectRequest {
        context_len: options.context,
        batch_tokens: options.budget.batch_tokens(options.chunk),
        kv_format: options.kv.into(),
        budget: options.budget.budget(),
    };
    let inspected = block_on(inspect_model(sources, request));
    let inspected = inspected.with_context(|| options.model.display().to_string())?;
    print_text(&format!("{inspected}\n"));
    Ok(ExitCode::SUCCESS)
}
