//! The conversation of a request: the system text, and messages of blocks.

use fanlight_messages::protocol::chat::{ChatCall, ChatRole, ChatTurn};
use serde_json::Value;

use crate::error::ApiError;
use crate::fields::Fields;
use crate::normal::MESSAGES_MAX;

/// Blocks of one message.
const BLOCKS_MAX: usize = 4096;
/// A block that one agent puts before its system text. It changes with every session, so that no two would
/// share a prefix in the cache, and says nothing to a model: it is left out.
const BILLING: &str = "x-anthropic-billing-header:";

/// The conversation, oldest first.
pub(super) fn turns(fields: &Fields<'_>) -> Result<Vec<ChatTurn>, ApiError> {
    let mut turns = Vec::new();
    let system = system(fields)?;
    if !system.is_empty() {
        turns.push(ChatTurn::new(ChatRole::System, system));
    }
    fields.required("messages", "a list of messages")?;
    let messages = fields.objects("messages", MESSAGES_MAX)?;
    let Some(last) = messages.last() else { return Err(fields.wrong("messages", "at least one message")) };
    if last.text("role")? == Some("assistant") {
        return Err(
            last.unsupported("role", "the last message is continued by the model: end with the user's")
        );
    }
    for message in &messages {
        match message.text("role")? {
            Some("user") => user(message, &mut turns)?,
            Some("assistant") => turns.push(assistant(message)?),
            Some("system") => turns.push(between(message)?),
            _ => return Err(message.wrong("role", "user, assistant or system")),
        }
    }
    // Thoughts count only until the user speaks again.
    let spoken = turns.iter().rposition(|turn| turn.role == ChatRole::User).unwrap_or(0);
    turns[..spoken].iter_mut().for_each(|turn| turn.reasoning = None);
    Ok(turns)
}

fn system(fields: &Fields<'_>) -> Result<String, ApiError> {
    let texts = texts(fields, "system")?;
    let said: Vec<&str> = texts.into_iter().filter(|text| !text.starts_with(BILLING)).collect();
    Ok(said.join("\n\n"))
}

/// A system message among the others keeps its place, so that the next turn has the same beginning; as
/// templates want the system's text first, it is the user's, between marks.
fn between(message: &Fields<'_>) -> Result<ChatTurn, ApiError> {
    let text = texts(message, "content")?.join("\n\n");
    Ok(ChatTurn::new(ChatRole::User, format!("<system-reminder>\n{text}\n</system-reminder>")))
}

/// A text, or the texts of blocks that are all text.
fn texts<'a>(fields: &Fields<'a>, field: &str) -> Result<Vec<&'a str>, ApiError> {
    match fields.get(field) {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text]),
        Some(Value::Array(_)) => {
            fields.objects(field, BLOCKS_MAX)?.iter().map(|block| text_block(block)).collect()
        }
        Some(_) => Err(fields.wrong(field, "a text or a list of text blocks")),
    }
}

fn text_block<'a>(block: &Fields<'a>) -> Result<&'a str, ApiError> {
    match block.text("type")? {
        Some("text") => block.text("text")?.ok_or_else(|| block.wrong("text", "a text")),
        _ => Err(block.unsupported("type", "the model reads text only")),
    }
}

/// A user's message: results of tools, and text. Each result is a turn of its own.
fn user(message: &Fields<'_>, turns: &mut Vec<ChatTurn>) -> Result<(), ApiError> {
    let Some(Value::Array(_)) = message.get("content") else {
        let text = texts(message, "content")?.concat();
        turns.push(ChatTurn::new(ChatRole::User, text));
        return Ok(());
    };
    let mut said: Vec<&str> = Vec::new();
    for block in &message.objects("content", BLOCKS_MAX)? {
        if block.text("type")? == Some("tool_result") {
            flush(&mut said, turns);
            turns.push(result(block)?);
        } else {
            said.push(text_block(block)?);
        }
    }
    flush(&mut said, turns);
    Ok(())
}

fn flush(said: &mut Vec<&str>, turns: &mut Vec<ChatTurn>) {
    if !said.is_empty() {
        turns.push(ChatTurn::new(ChatRole::User, said.join("\n\n")));
        said.clear();
    }
}

fn result(block: &Fields<'_>) -> Result<ChatTurn, ApiError> {
    let text = texts(block, "content")?.join("\n");
    let failed = block.flag("is_error")?.unwrap_or(false);
    let text = if failed { format!("Error: {text}") } else { text };
    let id = block.required("tool_use_id", "the id of a call")?.as_str();
    let id = id.ok_or_else(|| block.wrong("tool_use_id", "a text"))?;
    Ok(ChatTurn { call_id: Some(id.to_owned()), ..ChatTurn::new(ChatRole::Tool, text) })
}

fn assistant(message: &Fields<'_>) -> Result<ChatTurn, ApiError> {
    let mut turn = ChatTurn::new(ChatRole::Assistant, "");
    let Some(Value::Array(_)) = message.get("content") else {
        turn.content = texts(message, "content")?.concat();
        return Ok(turn);
    };
    let mut said: Vec<&str> = Vec::new();
    for block in &message.objects("content", BLOCKS_MAX)? {
        match block.text("type")? {
            Some("tool_use") => turn.calls.push(call(block)?),
            Some("thinking") => {
                let thought = block.text("thinking")?.unwrap_or_default();
                turn.reasoning.get_or_insert_default().push_str(thought);
            }
            Some("redacted_thinking") => {}
            _ => said.push(text_block(block)?),
        }
    }
    turn.content = said.concat();
    Ok(turn)
}

fn call(block: &Fields<'_>) -> Result<ChatCall, ApiError> {
    let name = block.text("name")?.ok_or_else(|| block.wrong("name", "the name of a tool"))?.to_owned();
    let arguments = block.object("input")?.map(|_| block.get("input")).unwrap_or_default();
    let arguments = arguments.map_or_else(|| "{}".to_owned(), Value::to_string);
    Ok(ChatCall { id: block.text("id")?.map(str::to_owned), name, arguments })
}
