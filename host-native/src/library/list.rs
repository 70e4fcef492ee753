//! `fanlight list` and `fanlight show`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use futures::executor::block_on;
use serde_json::json;

use fanlight_actors::pager::{InspectRequest, inspect};
use fanlight_messages::plan::{BATCH_TOKENS_MAX, KvFormat};

use super::{Library, resolve};
use crate::files::{Reads, open_model};
use crate::report::{print_json, print_text};

/// Options of `list`.
#[derive(Debug, Args)]
pub struct ListOptions {
    /// Print one JSON object per line.
    #[arg(long)]
    pub json: bool,
}

/// Options of `show`.
#[derive(Debug, Args)]
pub struct ShowOptions {
    /// A name that list shows, or a model file (GGUF).
    pub model: PathBuf,
}

/// Prints what is on this computer.
pub fn list(options: &ListOptions) -> Result<ExitCode> {
    let library = Library::of_this_computer();
    for note in &library.notes {
        eprintln!("fanlight: {note}");
    }
    if options.json {
        for entry in &library.entries {
            print_json(&json!({
                "name": entry.name,
                "path": entry.path,
                "bytes": entry.bytes,
                "problem": entry.problem,
            }));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if library.entries.is_empty() {
        eprintln!(
            "fanlight: Ollama, LM Studio and the Hugging Face cache hold no model; give a file instead"
        );
    }
    let width = library.entries.iter().map(|entry| entry.name.chars().count()).max().unwrap_or(0);
    for entry in &library.entries {
        let size = format!("{:8.2} GB", entry.bytes as f64 / 1e9);
        let problem = entry.problem.as_ref().map_or(String::new(), |problem| format!("  {problem}"));
        print_text(&format!("{:width$} {size}{problem}\n", entry.name));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what a model is.
pub fn show(options: &ShowOptions) -> Result<ExitCode> {
    let path = resolve(&options.model)?;
    let sources = open_model(&path, Reads::Cached)?;
    let bytes: u64 = sources.iter().map(|source| source.len()).sum();
    let request = InspectRequest {
        context_len: None,
        batch_tokens: BATCH_TOKENS_MAX,
        kv_format: KvFormat::F16,
        budget: None,
    };
    let shown = block_on(inspect(sources, request)).with_context(|| path.display().to_string())?;
    let has_template = shown.metadata.get_bytes("tokenizer.chat_template").is_ok_and(|found| found.is_some());
    print_text(&format!("{}\n{bytes} bytes\n{}\n", path.display(), shown.summary));
    print_text(if has_template { "chat template: yes\n" } else { "chat template: none\n" });
    if let Err(error) = shown.planned {
        print_text(&format!("cannot be run: {error}\n"));
    }
    Ok(ExitCode::SUCCESS)
}
