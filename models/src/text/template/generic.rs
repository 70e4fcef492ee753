//! Tools for a template that knows none: they are described in the system text, calls are written as the
//! model is told to write them, and results are the user's.

use serde_json::{Value, json};

use super::message::{ChatMessage, Role, ToolCall};

/// What the model is told around the descriptions.
const BEFORE: &str = "You can call functions. These are described here, one JSON object a line:";
const AFTER: &str = "To call one, answer with this and nothing else:\n<tool_call>\n\
                     {\"name\": \"NAME\", \"arguments\": {}}\n</tool_call>\n\
                     You will be given what it returns between <tool_response> and </tool_response>.";

/// The conversation without anything that only templates with tools know.
pub(super) fn without_tools(messages: &[ChatMessage], tools: &Value) -> Vec<ChatMessage> {
    let mut plain: Vec<ChatMessage> = messages.iter().map(plain).collect();
    let Some(tools) = tools.as_array().filter(|tools| !tools.is_empty()) else { return plain };
    let lines: Vec<String> = tools.iter().map(|tool| tool["function"].to_string()).collect();
    let text = format!("{BEFORE}\n{}\n{AFTER}", lines.join("\n"));
    match plain.first_mut().filter(|first| first.role == Role::System) {
        Some(system) => {
            let said = system.content.take().unwrap_or_default();
            system.content = Some(if said.is_empty() { text } else { format!("{said}\n\n{text}") });
        }
        None => plain.insert(0, ChatMessage::new(Role::System, text)),
    }
    plain
}

/// Whether a message has what only templates with tools know.
pub(super) fn needs_tools(message: &ChatMessage) -> bool {
    message.role == Role::Tool || !message.tool_calls.is_empty()
}

fn plain(message: &ChatMessage) -> ChatMessage {
    let text = message.content.clone().unwrap_or_default();
    if message.role == Role::Tool {
        let text = format!("<tool_response>\n{text}\n</tool_response>");
        return ChatMessage::new(Role::User, text);
    }
    if message.tool_calls.is_empty() {
        return message.clone();
    }
    let calls = message.tool_calls.iter().map(call);
    let parts: Vec<String> = Some(text).filter(|text| !text.is_empty()).into_iter().chain(calls).collect();
    let content = Some(parts.join("\n"));
    ChatMessage { content, tool_calls: Vec::new(), ..message.clone() }
}

fn call(call: &ToolCall) -> String {
    let arguments = match &call.arguments {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| call.arguments.clone()),
        object => object.clone(),
    };
    format!("<tool_call>\n{}\n</tool_call>", json!({ "name": call.name, "arguments": arguments }))
}
