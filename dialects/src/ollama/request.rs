//! `POST /api/chat` and `/api/generate`, the requests.

use fanlight_messages::protocol::chat::{ChatCall, ChatRole, ChatTurn};
use fanlight_messages::sampling::SamplingOptions;
use serde_json::Value;

use super::reply::OllamaForm;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json;
use crate::normal::{Format, MESSAGES_MAX, NormalRequest, PromptForm, TOOLS_MAX, check_sampling, stops};
use crate::openai::tool;
use crate::reply::ReplyForm;

/// Candidates, and the sum of their probabilities, where nothing is said, as in the interface that this
/// follows.
const TOP_K: u32 = 40;
const TOP_P: f64 = 0.9;
const TEMPERATURE: f64 = 0.8;

/// Reads a chat; `context_len` is what is served.
///
/// # Errors
/// [`ApiError`] names the first field that cannot be served.
pub fn read_chat(body: &[u8], context_len: u32) -> Result<(NormalRequest, Box<dyn ReplyForm>), ApiError> {
    let body = json::parse(body)?;
    let fields = Fields::of(&body)?;
    let tools = fields.objects("tools", TOOLS_MAX)?.iter().map(tool).collect::<Result<_, _>>()?;
    let messages = fields.objects("messages", MESSAGES_MAX)?;
    let turns: Vec<ChatTurn> = messages.iter().map(turn).collect::<Result<_, _>>()?;
    let is_load = turns.is_empty();
    let request = request(&fields, PromptForm::Chat { turns, tools }, context_len)?;
    Ok((loads(request, is_load), Box::new(OllamaForm { is_chat: true })))
}

/// Reads a text that goes on, through the chat template unless it is raw; `context_len` is what is served.
///
/// # Errors
/// [`ApiError`] names the first field that cannot be served.
pub fn read_generate(body: &[u8], context_len: u32) -> Result<(NormalRequest, Box<dyn ReplyForm>), ApiError> {
    let body = json::parse(body)?;
    let fields = Fields::of(&body)?;
    let text = fields.text("prompt")?.unwrap_or_default();
    if fields.text("suffix")?.is_some_and(|suffix| !suffix.is_empty()) {
        return Err(fields.unsupported("suffix", "the text goes on at its end only"));
    }
    if fields.text("template")?.is_some_and(|template| !template.is_empty()) {
        return Err(fields.unsupported("template", "the model's own is used: send raw: true to go without"));
    }
    fields.refuse("context", "send the conversation to /api/chat")?;
    no_images(&fields)?;
    let prompt = if fields.flag("raw")?.unwrap_or(false) {
        PromptForm::Raw { text: text.to_owned(), parse_special: true }
    } else {
        let system = fields.text("system")?.filter(|text| !text.is_empty());
        let system = system.map(|text| ChatTurn::new(ChatRole::System, text));
        let turns = system.into_iter().chain([ChatTurn::new(ChatRole::User, text)]).collect();
        PromptForm::Chat { turns, tools: Vec::new() }
    };
    let request = request(&fields, prompt, context_len)?;
    Ok((loads(request, text.is_empty()), Box::new(OllamaForm { is_chat: false })))
}

/// A request without a prompt only asks that the model be loaded, which it is.
fn loads(request: NormalRequest, is_load: bool) -> NormalRequest {
    if is_load { NormalRequest { prompts: Vec::new(), ..request } } else { request }
}

fn request(fields: &Fields<'_>, prompt: PromptForm, context_len: u32) -> Result<NormalRequest, ApiError> {
    let mut request = NormalRequest {
        model: fields.text("model")?.unwrap_or_default().to_owned(),
        stream: fields.flag("stream")?.unwrap_or(true),
        think: think(fields)?,
        format: format(fields)?,
        ..NormalRequest::new(prompt)
    };
    let none = Value::Object(serde_json::Map::new());
    let options = match fields.object("options")? {
        Some(options) => options,
        None => Fields::at(&none, "options")?,
    };
    if let Some(asked) = options.integer("num_ctx")?.filter(|asked| *asked > i64::from(context_len)) {
        let (field, found) = (options.name("num_ctx"), asked.to_string());
        let wanted = format!("at most {context_len}, or start the server with --context {asked}");
        return Err(ApiError::Field { field, found, wanted });
    }
    let number = |field: &str, default: f64| Ok::<_, ApiError>(options.number(field)?.unwrap_or(default));
    let sampling = SamplingOptions {
        temperature: number("temperature", TEMPERATURE)?,
        top_k: options.integer("top_k")?.map_or(TOP_K, |k| u32::try_from(k.max(0)).unwrap_or(u32::MAX)),
        top_p: number("top_p", TOP_P)?,
        min_p: number("min_p", 0.0)?,
        repeat_penalty: number("repeat_penalty", 1.0)?,
        repeat_window: repeat_window(&options, context_len)?,
        frequency_penalty: number("frequency_penalty", 0.0)?,
        presence_penalty: number("presence_penalty", 0.0)?,
        ..SamplingOptions::default()
    };
    check_sampling(&sampling)?;
    request.sampling = sampling;
    request.set_seed(options.integer("seed")?);
    request.stop = stops(&options, "stop")?;
    // Below zero stands for as many as fit.
    let limit = options.integer("num_predict")?.filter(|limit| *limit >= 0);
    request.limit = limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX).max(1));
    Ok(request)
}

/// Below zero stands for the whole context.
fn repeat_window(options: &Fields<'_>, context_len: u32) -> Result<u32, ApiError> {
    let default = SamplingOptions::default().repeat_window;
    let wanted = options.integer("repeat_last_n")?.unwrap_or(default.into());
    Ok(u32::try_from(wanted).unwrap_or(context_len))
}

/// Yes, no, or how much.
fn think(fields: &Fields<'_>) -> Result<Option<bool>, ApiError> {
    match fields.get("think") {
        None => Ok(None),
        Some(Value::Bool(think)) => Ok(Some(*think)),
        Some(Value::String(effort)) if matches!(effort.as_str(), "low" | "medium" | "high") => Ok(Some(true)),
        Some(_) => Err(fields.wrong("think", "true, false, low, medium or high")),
    }
}

fn format(fields: &Fields<'_>) -> Result<Format, ApiError> {
    match fields.get("format") {
        None => Ok(Format::Text),
        Some(Value::String(format)) if format.is_empty() => Ok(Format::Text),
        Some(Value::String(format)) if format == "json" => Ok(Format::JsonObject),
        Some(schema @ Value::Object(_)) => Ok(Format::JsonSchema(schema.to_string())),
        Some(_) => Err(fields.wrong("format", "json or a JSON schema")),
    }
}

/// Clients send an empty list where there are none.
fn no_images(fields: &Fields<'_>) -> Result<(), ApiError> {
    match fields.list("images", MESSAGES_MAX)?.is_empty() {
        true => Ok(()),
        false => Err(fields.unsupported("images", "the model reads text only")),
    }
}

fn turn(message: &Fields<'_>) -> Result<ChatTurn, ApiError> {
    let role = match message.text("role")? {
        Some("system") => ChatRole::System,
        Some("user") => ChatRole::User,
        Some("assistant") => ChatRole::Assistant,
        Some("tool") => ChatRole::Tool,
        _ => return Err(message.wrong("role", "system, user, assistant or tool")),
    };
    no_images(message)?;
    let text = |field: &str| Ok::<_, ApiError>(message.text(field)?.map(str::to_owned));
    Ok(ChatTurn {
        reasoning: text("thinking")?.filter(|thought| !thought.is_empty()),
        calls: message.objects("tool_calls", TOOLS_MAX)?.iter().map(call).collect::<Result<_, _>>()?,
        call_id: text("tool_call_id")?,
        name: text("tool_name")?,
        ..ChatTurn::new(role, message.text("content")?.unwrap_or_default())
    })
}

fn call(call: &Fields<'_>) -> Result<ChatCall, ApiError> {
    let function = call.required("function", "an object with name and arguments")?;
    let function = Fields::at(function, call.name("function"))?;
    let name = function.text("name")?.ok_or_else(|| function.wrong("name", "a text"))?.to_owned();
    let arguments = function.object("arguments")?.map(|_| function.get("arguments")).unwrap_or_default();
    let arguments = arguments.map_or_else(|| "{}".to_owned(), Value::to_string);
    Ok(ChatCall { id: call.text("id")?.map(str::to_owned), name, arguments })
}
