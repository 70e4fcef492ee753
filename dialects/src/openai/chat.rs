//! `POST /v1/chat/completions`, the request.

use serde_json::Value;

use fanlight_messages::sampling::{REPEAT_WINDOW_DEFAULT, SamplingOptions};

use super::chat_reply::ChatForm;
use super::logit_bias;
use super::messages::turns;
use super::tools;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json;
use crate::normal::{
    Choice, Format, NormalRequest, PromptForm, REPLIES_MAX, TOOLS_MAX, check_sampling, stops,
};
use crate::reply::ReplyForm;

/// Reads a request.
///
/// # Errors
/// [`ApiError`] names the first field that cannot be served.
pub fn read(body: &[u8]) -> Result<(NormalRequest, Box<dyn ReplyForm>), ApiError> {
    let body = json::parse(body)?;
    let fields = Fields::of(&body)?;
    refuse_unsupported(&fields)?;
    let tools = fields.objects("tools", TOOLS_MAX)?.iter().map(tools::tool).collect::<Result<Vec<_>, _>>()?;
    let choice = tools::choice(&fields, &tools)?;
    let turns = turns(&fields)?;
    let prompt = PromptForm::Chat { turns, tools };
    let stream_options = fields.object("stream_options")?;
    let usage_in_stream = match &stream_options {
        Some(options) => options.flag("include_usage")?.unwrap_or(false),
        None => false,
    };
    let limit = match fields.limit("max_completion_tokens", 1)? {
        Some(limit) => Some(limit),
        None => fields.limit("max_tokens", 1)?,
    };
    let mut request = NormalRequest {
        model: fields.text("model")?.unwrap_or_default().to_owned(),
        replies: fields.count("n", 1, REPLIES_MAX)?.unwrap_or(1),
        choice,
        parallel: fields.flag("parallel_tool_calls")?.unwrap_or(true),
        format: format(&fields)?,
        limit,
        stop: stops(&fields, "stop")?,
        sampling: sampling(&fields)?,
        think: think(&fields)?,
        stream: fields.flag("stream")?.unwrap_or(false),
        usage_in_stream,
        session: fields.text("prompt_cache_key")?.map(str::to_owned),
        ..NormalRequest::new(prompt)
    };
    request.set_seed(fields.integer("seed")?);
    Ok((request, Box::new(ChatForm { usage_in_stream })))
}

/// What is known, would change the reply, and is not served.
fn refuse_unsupported(fields: &Fields<'_>) -> Result<(), ApiError> {
    if fields.flag("logprobs")? == Some(true) {
        return Err(fields.unsupported("logprobs", "leave it out"));
    }
    if fields.integer("top_logprobs")?.is_some_and(|count| count > 0) {
        return Err(fields.unsupported("top_logprobs", "leave it out"));
    }
    fields.refuse("audio", "answers are text")?;
    fields.refuse("functions", "use tools")?;
    fields.refuse("function_call", "use tool_choice")?;
    let modalities = fields.texts("modalities", 8)?;
    if modalities.iter().any(|modality| modality != "text") {
        return Err(fields.unsupported("modalities", "answers are text"));
    }
    Ok(())
}

/// How tokens are chosen: at temperature 1 where nothing is said, as in the interface that this follows.
pub(super) fn sampling(fields: &Fields<'_>) -> Result<SamplingOptions, ApiError> {
    let number = |field: &str, default: f64| Ok::<_, ApiError>(fields.number(field)?.unwrap_or(default));
    let options = SamplingOptions {
        temperature: number("temperature", 1.0)?,
        top_k: fields.integer("top_k")?.map_or(0, |k| u32::try_from(k.max(0)).unwrap_or(u32::MAX)),
        top_p: number("top_p", 1.0)?,
        min_p: number("min_p", 0.0)?,
        repeat_penalty: number("repeat_penalty", 1.0)?,
        repeat_window: fields.count("repeat_last_n", 0, u32::MAX)?.unwrap_or(REPEAT_WINDOW_DEFAULT),
        frequency_penalty: number("frequency_penalty", 0.0)?,
        presence_penalty: number("presence_penalty", 0.0)?,
        logit_bias: logit_bias(fields)?,
        seed: 0,
    };
    check_sampling(&options)?;
    Ok(options)
}

/// The least effort turns thinking off, any other turns it on; `chat_template_kwargs` says it outright.
fn think(fields: &Fields<'_>) -> Result<Option<bool>, ApiError> {
    let kwargs = fields.object("chat_template_kwargs")?;
    if let Some(think) = kwargs.map(|kwargs| kwargs.flag("enable_thinking")).transpose()?.flatten() {
        return Ok(Some(think));
    }
    let effort = fields.text("reasoning_effort")?;
    Ok(effort.map(|effort| !matches!(effort, "none" | "minimal")))
}

fn format(fields: &Fields<'_>) -> Result<Format, ApiError> {
    let Some(format) = fields.object("response_format")? else { return Ok(Format::Text) };
    match format.text("type")? {
        Some("text") => Ok(Format::Text),
        Some("json_object") => Ok(Format::JsonObject),
        Some("json_schema") => {
            let schema = format.required("json_schema", "an object with a schema")?;
            let schema =
                Fields::at(schema, format.name("json_schema"))?.required("schema", "a JSON schema")?;
            Ok(Format::JsonSchema(schema.to_string()))
        }
        _ => Err(format.wrong("type", "text, json_object or json_schema")),
    }
}

/// Whether a call must be, in `tool_choice`.
pub(crate) fn choice_of(value: &Value) -> Option<Choice> {
    match value.as_str()? {
        "auto" => Some(Choice::Auto),
        "none" => Some(Choice::None),
        "required" => Some(Choice::Required),
        _ => None,
    }
}
