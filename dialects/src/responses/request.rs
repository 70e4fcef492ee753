//! The request.

use fanlight_messages::sampling::SamplingOptions;
use serde_json::{Value, json};

use super::items::turns;
use super::reply::ResponseForm;
use super::tools;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json;
use crate::normal::{Format, NormalRequest, PromptForm, check_sampling};
use crate::reply::ReplyForm;

/// Reads a request. To `is_codex` a reply that was cut off is told in the one way that this client takes.
///
/// # Errors
/// [`ApiError`] names the first field that cannot be served.
pub fn read(body: &[u8], is_codex: bool) -> Result<(NormalRequest, Box<dyn ReplyForm>), ApiError> {
    let body = json::parse(body)?;
    let fields = Fields::of(&body)?;
    let hint = "nothing is kept between requests: send the whole input";
    fields.refuse("previous_response_id", hint)?;
    fields.refuse("conversation", hint)?;
    if fields.flag("background")? == Some(true) {
        return Err(fields.unsupported("background", "wait for the reply, or stream it"));
    }
    let (tools, names) = tools::read(&fields)?;
    let choice = tools::choice(&fields, &tools)?;
    let turns = turns(&fields)?;
    let sampling = SamplingOptions {
        temperature: fields.number("temperature")?.unwrap_or(1.0),
        top_p: fields.number("top_p")?.unwrap_or(1.0),
        ..SamplingOptions::default()
    };
    check_sampling(&sampling)?;
    let request = NormalRequest {
        model: fields.text("model")?.unwrap_or_default().to_owned(),
        choice,
        parallel: fields.flag("parallel_tool_calls")?.unwrap_or(true),
        format: format(&fields)?,
        limit: fields.limit("max_output_tokens", 1)?,
        sampling,
        think: think(&fields)?,
        stream: fields.flag("stream")?.unwrap_or(false),
        session: fields.text("prompt_cache_key")?.map(str::to_owned),
        ..NormalRequest::new(PromptForm::Chat { turns, tools })
    };
    Ok((request, Box::new(ResponseForm { names, echo: echo(&fields), is_codex })))
}

/// What the response repeats of the request.
fn echo(fields: &Fields<'_>) -> Value {
    let or = |field: &str, default: Value| fields.get(field).cloned().unwrap_or(default);
    json!({
        "instructions": or("instructions", Value::Null),
        "max_output_tokens": or("max_output_tokens", Value::Null),
        "metadata": or("metadata", json!({})),
        "parallel_tool_calls": or("parallel_tool_calls", json!(true)),
        "previous_response_id": null,
        "reasoning": or("reasoning", json!({ "effort": null, "summary": null })),
        "store": false,
        "temperature": or("temperature", json!(1.0)),
        "text": or("text", json!({ "format": { "type": "text" } })),
        "tool_choice": or("tool_choice", json!("auto")),
        "tools": or("tools", json!([])),
        "top_p": or("top_p", json!(1.0)),
        "truncation": "disabled",
        "user": or("user", Value::Null),
    })
}

/// The least effort turns thinking off, any other turns it on.
fn think(fields: &Fields<'_>) -> Result<Option<bool>, ApiError> {
    let Some(reasoning) = fields.object("reasoning")? else { return Ok(None) };
    let effort = reasoning.text("effort")?;
    Ok(effort.map(|effort| !matches!(effort, "none" | "minimal")))
}

fn format(fields: &Fields<'_>) -> Result<Format, ApiError> {
    let Some(text) = fields.object("text")? else { return Ok(Format::Text) };
    let Some(format) = text.object("format")? else { return Ok(Format::Text) };
    match format.text("type")? {
        Some("text") => Ok(Format::Text),
        Some("json_object") => Ok(Format::JsonObject),
        Some("json_schema") => {
            Ok(Format::JsonSchema(format.required("schema", "a JSON schema")?.to_string()))
        }
        _ => Err(format.wrong("type", "text, json_object or json_schema")),
    }
}
