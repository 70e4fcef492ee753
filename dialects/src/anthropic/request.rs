//! `POST /v1/messages` and `/v1/messages/count_tokens`, the requests.

use serde_json::Value;

use fanlight_messages::protocol::chat::ChatTool;
use fanlight_messages::sampling::SamplingOptions;

use super::blocks::turns;
use super::reply::MessageForm;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json;
use crate::normal::{Choice, Format, NormalRequest, PromptForm, TOOLS_MAX, check_sampling, stops};
use crate::openai::{check_choice, named};
use crate::reply::ReplyForm;

/// Reads a request for a reply.
///
/// # Errors
/// [`ApiError`] names the first field that cannot be served.
pub fn read(body: &[u8]) -> Result<(NormalRequest, Box<dyn ReplyForm>), ApiError> {
    let body = json::parse(body)?;
    let fields = Fields::of(&body)?;
    let mut request = conversation(&fields)?;
    request.limit = Some(fields.limit("max_tokens", 1)?.ok_or_else(|| {
        let (field, found) = ("max_tokens".into(), "missing".into());
        ApiError::Field { field, found, wanted: "a whole number from 1 on".into() }
    })?);
    let options = SamplingOptions {
        temperature: fields.number("temperature")?.unwrap_or(1.0),
        top_k: fields.count("top_k", 0, u32::MAX)?.unwrap_or(0),
        top_p: fields.number("top_p")?.unwrap_or(1.0),
        ..SamplingOptions::default()
    };
    check_sampling(&options)?;
    request.sampling = options;
    request.stop = stops(&fields, "stop_sequences")?;
    request.stream = fields.flag("stream")?.unwrap_or(false);
    request.format = format(&fields)?;
    Ok((request, Box::new(MessageForm)))
}

/// Reads a request for the number of tokens.
///
/// # Errors
/// [`ApiError`] names the first field that cannot be served.
pub fn read_count(body: &[u8]) -> Result<NormalRequest, ApiError> {
    conversation(&Fields::of(&json::parse(body)?)?)
}

/// What both have in common.
fn conversation(fields: &Fields<'_>) -> Result<NormalRequest, ApiError> {
    let mut tools = Vec::new();
    for tool in fields.objects("tools", TOOLS_MAX)? {
        // Tools that the service itself would run are left out: nobody would answer.
        if tool.text("type")?.is_none_or(|kind| kind == "custom") {
            tools.push(named(&tool, "input_schema")?);
        }
    }
    let (choice, parallel) = choice(fields, &tools)?;
    let prompt = PromptForm::Chat { turns: turns(fields)?, tools };
    Ok(NormalRequest {
        model: fields.text("model")?.unwrap_or_default().to_owned(),
        choice,
        parallel,
        think: think(fields)?,
        ..NormalRequest::new(prompt)
    })
}

fn choice(fields: &Fields<'_>, tools: &[ChatTool]) -> Result<(Choice, bool), ApiError> {
    let Some(choice) = fields.object("tool_choice")? else { return Ok((Choice::Auto, true)) };
    let parallel = !choice.flag("disable_parallel_tool_use")?.unwrap_or(false);
    let kind = match choice.text("type")? {
        Some("auto") => Choice::Auto,
        Some("none") => Choice::None,
        Some("any") => Choice::Required,
        Some("tool") => match choice.text("name")? {
            Some(name) => Choice::Named(name.to_owned()),
            None => return Err(choice.wrong("name", "the name of a tool")),
        },
        _ => return Err(choice.wrong("type", "auto, any, tool or none")),
    };
    Ok((check_choice(fields, "tool_choice", kind, tools)?, parallel))
}

/// Absent, thinking is off, as in the interface that this follows; adaptive leaves it to the template.
fn think(fields: &Fields<'_>) -> Result<Option<bool>, ApiError> {
    let Some(thinking) = fields.object("thinking")? else { return Ok(Some(false)) };
    match thinking.text("type")? {
        Some("enabled") => Ok(Some(true)),
        Some("disabled") => Ok(Some(false)),
        Some("adaptive") => Ok(None),
        _ => Err(thinking.wrong("type", "enabled, disabled or adaptive")),
    }
}

fn format(fields: &Fields<'_>) -> Result<Format, ApiError> {
    let Some(config) = fields.object("output_config")? else { return Ok(Format::Text) };
    let Some(format) = config.object("format")? else { return Ok(Format::Text) };
    match format.text("type")? {
        Some("json_schema") => {
            let schema: &Value = format.required("schema", "a JSON schema")?;
            Ok(Format::JsonSchema(schema.to_string()))
        }
        _ => Err(format.wrong("type", "json_schema")),
    }
}
