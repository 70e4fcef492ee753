//! What this dialect tells of the server and its model.

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::fields::Fields;
use crate::json;
use crate::served::{ServedModel, timestamp};

/// The level of the interface that is spoken, which some clients ask for.
const LEVEL: &str = "0.15.0";

/// `GET /api/version`.
pub fn version() -> Value {
    json!({ "version": LEVEL, "fanlight": env!("CARGO_PKG_VERSION") })
}

/// `GET /api/tags`.
pub fn tags(served: &ServedModel) -> Value {
    json!({ "models": [entry(served)] })
}

/// `GET /api/ps`.
pub fn ps(served: &ServedModel) -> Value {
    let mut entry = entry(served);
    // It stays as long as the server does.
    entry["expires_at"] = timestamp(u64::MAX).into();
    entry["size_vram"] = served.gpu_bytes.into();
    entry["context_length"] = served.context_len.into();
    json!({ "models": [entry] })
}

/// The model that `POST /api/show` asks for, under either of two names.
///
/// # Errors
/// When the body is no JSON object or names no model.
pub fn asked_model(body: &[u8]) -> Result<String, ApiError> {
    let body = json::parse(body)?;
    let fields = Fields::of(&body)?;
    let name = match fields.text("model")? {
        Some(name) => Some(name),
        None => fields.text("name")?,
    };
    name.map(str::to_owned).ok_or_else(|| fields.wrong("model", "the name of a model"))
}

/// `POST /api/show`. The context is the one that is served: some clients take their limit from it.
pub fn show(served: &ServedModel) -> Value {
    let architecture = &served.architecture;
    let mut info = json!({
        "general.architecture": architecture,
        "general.basename": served.id,
        "general.parameter_count": served.parameters,
    });
    info[format!("{architecture}.context_length")] = served.context_len.into();
    json!({
        "license": "",
        "modelfile": "",
        "parameters": "",
        "template": served.chat_template,
        "details": details(served),
        "model_info": info,
        "capabilities": capabilities(served),
        "modified_at": timestamp(served.created),
    })
}

fn entry(served: &ServedModel) -> Value {
    json!({
        "name": served.id,
        "model": served.id,
        "modified_at": timestamp(served.created),
        "size": served.size_bytes,
        "digest": served.digest,
        "details": details(served),
        "capabilities": capabilities(served),
    })
}

fn details(served: &ServedModel) -> Value {
    json!({
        "parent_model": "",
        "format": "gguf",
        "family": served.architecture,
        "families": [served.architecture],
        "parameter_size": served.parameter_size(),
        "quantization_level": served.quantization,
    })
}

/// Whoever has a chat template can be told of functions.
fn capabilities(served: &ServedModel) -> Value {
    let tools = (!served.chat_template.is_empty()).then_some("tools");
    ["completion"].into_iter().chain(tools).collect()
}
