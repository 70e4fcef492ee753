//! What clients are told of the model: from its header, before it is loaded, and from the load.

use std::fmt::Write as _;
use std::fs;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use fanlight_actors::pager::{InspectRequest, inspect};
use fanlight_dialects::ServedModel;
use fanlight_messages::protocol::engine::ModelLoaded;

use super::ServeOptions;
use crate::files::open_model;
use crate::library::resolve;

/// What the header tells.
pub async fn facts(options: &ServeOptions) -> Result<ServedModel> {
    let sources = open_model(&options.model, options.budget.reads())?;
    let size_bytes: u64 = sources.iter().map(|source| source.len()).sum();
    let request = InspectRequest {
        context_len: options.context,
        batch_tokens: options.budget.batch_tokens(None),
        kv_format: options.kv.into(),
        budget: options.budget.budget(),
    };
    let about = || options.model.display().to_string();
    let inspected = inspect(sources, request).await.with_context(about)?;
    let (summary, metadata) = (inspected.summary, inspected.metadata);
    let most = summary.types.iter().max_by_key(|used| used.bytes);
    let path = resolve(&options.model)?;
    let written = fs::metadata(&path).and_then(|metadata| metadata.modified()).ok();
    let written = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let created = written.unwrap_or_default().as_secs();
    // What was given leads to the file: a path by its last part, a name of the library as it is.
    let name = if path == options.model { path.file_stem() } else { Some(options.model.as_os_str()) };
    let name = name.map(|name| name.to_string_lossy().into_owned());
    let id = options.alias.clone().or(name).or(summary.name).unwrap_or_else(|| "model".into());
    Ok(ServedModel {
        digest: digest(&[&id, &size_bytes.to_string(), &created.to_string()]),
        id,
        created,
        size_bytes,
        architecture: summary.architecture.unwrap_or_default(),
        parameters: summary.parameters,
        quantization: most.map(|used| used.tensor_type.name().to_owned()).unwrap_or_default(),
        // A template that is no text is refused by the load.
        chat_template: metadata
            .get_text("tokenizer.chat_template")
            .ok()
            .flatten()
            .unwrap_or_default()
            .into_owned(),
        context_len: 0,
        vocabulary_len: 0,
        gpu_bytes: 0,
    })
}

/// What the load told.
pub fn complete(model: &mut ServedModel, loaded: &ModelLoaded) {
    model.context_len = loaded.context_len;
    model.vocabulary_len = loaded.vocabulary_len;
    model.gpu_bytes = loaded.gpu_bytes;
}

/// Stands for the files, whose own hash would take as long as reading them.
fn digest(facts: &[&str]) -> String {
    let mut hex = String::new();
    for byte in Sha256::digest(facts.join("\n").as_bytes()) {
        // Writing to a text does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}
