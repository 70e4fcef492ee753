//! The input: a text, or items of a conversation.

use fanlight_messages::protocol::chat::{ChatCall, ChatRole, ChatTurn};
use serde_json::Value;

use super::tools::flat;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::normal::MESSAGES_MAX;

/// The conversation. Calls that follow each other belong to one turn.
pub(super) fn turns(fields: &Fields<'_>) -> Result<Vec<ChatTurn>, ApiError> {
    let instructions = fields.text("instructions")?.filter(|text| !text.is_empty());
    let mut turns: Vec<ChatTurn> = Vec::new();
    turns.extend(instructions.map(|text| ChatTurn::new(ChatRole::System, text)));
    match fields.required("input", "a text or a list of items")? {
        Value::String(text) => turns.push(ChatTurn::new(ChatRole::User, text.clone())),
        Value::Array(_) => {
            let mut thoughts = String::new();
            for item in fields.objects("input", MESSAGES_MAX)? {
                match item.text("type")?.unwrap_or("message") {
                    "message" => turns.push(message(&item, &mut thoughts)?),
                    "function_call" => call(&item, &mut thoughts, &mut turns)?,
                    "function_call_output" => turns.push(output(&item)?),
                    "reasoning" => thoughts.push_str(&reasoning(&item)?),
                    // What other tools did was never shown to this model.
                    kind if kind.ends_with("_call") || kind.ends_with("_call_output") => {}
                    _ => return Err(item.unsupported("type", "give messages, calls and their outputs")),
                }
            }
        }
        _ => return Err(fields.wrong("input", "a text or a list of items")),
    }
    if turns.is_empty() {
        return Err(fields.wrong("input", "at least one item"));
    }
    Ok(turns)
}

fn message(item: &Fields<'_>, thoughts: &mut String) -> Result<ChatTurn, ApiError> {
    let role = match item.text("role")? {
        Some("system" | "developer") => ChatRole::System,
        Some("user") => ChatRole::User,
        Some("assistant") => ChatRole::Assistant,
        _ => return Err(item.wrong("role", "user, assistant, system or developer")),
    };
    let reasoning = match role {
        ChatRole::Assistant => Some(std::mem::take(thoughts)).filter(|text| !text.is_empty()),
        _ => None,
    };
    let parts = texts(item, "content")?;
    Ok(ChatTurn { reasoning, ..ChatTurn::new(role, parts.join("\n\n")) })
}

/// A text, or the texts of parts.
fn texts<'a>(item: &Fields<'a>, field: &str) -> Result<Vec<&'a str>, ApiError> {
    match item.get(field) {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text]),
        Some(Value::Array(_)) => {
            let parts = item.objects(field, MESSAGES_MAX)?;
            let texts = parts.iter().map(|part| match part.text("type")? {
                Some("input_text" | "output_text" | "text") => Ok(part.text("text")?.unwrap_or_default()),
                Some("refusal") => Ok(part.text("refusal")?.unwrap_or_default()),
                _ => Err(part.unsupported("type", "the model reads text only")),
            });
            texts.collect()
        }
        Some(_) => Err(item.wrong(field, "a text or a list of text parts")),
    }
}

fn call(item: &Fields<'_>, thoughts: &mut String, turns: &mut Vec<ChatTurn>) -> Result<(), ApiError> {
    let text = |field: &str| item.text(field)?.ok_or_else(|| item.wrong(field, "a text"));
    let name = match item.text("namespace")? {
        Some(namespace) => flat(namespace, text("name")?),
        None => text("name")?.to_owned(),
    };
    let arguments = item.text("arguments")?.unwrap_or("{}").to_owned();
    let call = ChatCall { id: Some(text("call_id")?.to_owned()), name, arguments };
    match turns.last_mut().filter(|turn| turn.role == ChatRole::Assistant) {
        Some(turn) => turn.calls.push(call),
        None => {
            let reasoning = Some(std::mem::take(thoughts)).filter(|text| !text.is_empty());
            let turn = ChatTurn::new(ChatRole::Assistant, "");
            turns.push(ChatTurn { calls: vec![call], reasoning, ..turn });
        }
    }
    Ok(())
}

fn output(item: &Fields<'_>) -> Result<ChatTurn, ApiError> {
    let id = item.text("call_id")?.ok_or_else(|| item.wrong("call_id", "the id of a call"))?;
    let text = texts(item, "output")?.join("\n");
    Ok(ChatTurn { call_id: Some(id.to_owned()), ..ChatTurn::new(ChatRole::Tool, text) })
}

/// Thoughts that came with their text; those that are sealed say nothing.
fn reasoning(item: &Fields<'_>) -> Result<String, ApiError> {
    let parts = item.objects("content", MESSAGES_MAX)?;
    let texts = parts.iter().map(|part| Ok(part.text("text")?.unwrap_or_default().to_owned()));
    texts.collect()
}
