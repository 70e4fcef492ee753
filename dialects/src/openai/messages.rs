//! The messages of a chat completion.

use fanlight_messages::protocol::chat::{ChatCall, ChatRole, ChatTurn};
use serde_json::Value;

use crate::error::ApiError;
use crate::fields::Fields;
use crate::normal::{MESSAGES_MAX, TOOLS_MAX};

/// The conversation.
pub(super) fn turns(fields: &Fields<'_>) -> Result<Vec<ChatTurn>, ApiError> {
    fields.required("messages", "a list of messages")?;
    let messages = fields.objects("messages", MESSAGES_MAX)?;
    if messages.is_empty() {
        return Err(fields.wrong("messages", "at least one message"));
    }
    messages.iter().map(turn).collect()
}

fn turn(message: &Fields<'_>) -> Result<ChatTurn, ApiError> {
    let role = match message.text("role")? {
        Some("system" | "developer") => ChatRole::System,
        Some("user") => ChatRole::User,
        Some("assistant") => ChatRole::Assistant,
        Some("tool" | "function") => ChatRole::Tool,
        _ => return Err(message.wrong("role", "system, developer, user, assistant or tool")),
    };
    let reasoning = match message.text("reasoning_content")? {
        Some(text) => Some(text),
        // Some servers send an object here, which says nothing to a template.
        None => message.get("reasoning").and_then(Value::as_str),
    };
    let calls = message.objects("tool_calls", TOOLS_MAX)?;
    message.refuse("function_call", "use tool_calls")?;
    Ok(ChatTurn {
        reasoning: reasoning.filter(|text| !text.is_empty()).map(str::to_owned),
        calls: calls.iter().map(call).collect::<Result<_, _>>()?,
        call_id: message.text("tool_call_id")?.map(str::to_owned),
        name: message.text("name")?.map(str::to_owned),
        ..ChatTurn::new(role, content(message)?)
    })
}

/// A text, or a list of text parts.
fn content(message: &Fields<'_>) -> Result<String, ApiError> {
    match message.get("content") {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(_)) => {
            let parts = message.objects("content", MESSAGES_MAX)?;
            let texts = parts.iter().map(|part| match part.text("type")? {
                Some("text") => Ok(part.text("text")?.unwrap_or_default()),
                Some("refusal") => Ok(part.text("refusal")?.unwrap_or_default()),
                _ => Err(part.unsupported("type", "the model reads text only")),
            });
            texts.collect()
        }
        Some(_) => Err(message.wrong("content", "a text or a list of text parts")),
    }
}

fn call(call: &Fields<'_>) -> Result<ChatCall, ApiError> {
    let function = call.required("function", "an object with name and arguments")?;
    let function = Fields::at(function, call.name("function"))?;
    let name =
        function.required("name", "a text")?.as_str().ok_or_else(|| function.wrong("name", "a text"))?;
    let arguments = match function.get("arguments") {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    Ok(ChatCall { id: call.text("id")?.map(str::to_owned), name: name.to_owned(), arguments })
}
