//! Functions that a model may call, in this dialect.

use fanlight_messages::protocol::chat::ChatTool;
use serde_json::Value;

use super::chat::choice_of;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::normal::Choice;

/// `{"type": "function", "function": {…}}`.
pub(crate) fn tool(tool: &Fields<'_>) -> Result<ChatTool, ApiError> {
    if tool.text("type")? != Some("function") {
        return Err(tool.unsupported("type", "tools are functions"));
    }
    let function = tool.required("function", "an object with a name")?;
    let function = Fields::at(function, tool.name("function"))?;
    named(&function, "parameters")
}

/// A function by its name, with the schema of its arguments in a field.
pub(crate) fn named(function: &Fields<'_>, schema: &str) -> Result<ChatTool, ApiError> {
    let name = function.text("name")?.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| function.wrong("name", "a text that is not empty"))?.to_owned();
    let description = function.text("description")?.unwrap_or_default().to_owned();
    let parameters = function.object(schema)?.map(|_| function.get(schema)).unwrap_or_default();
    Ok(ChatTool { name, description, parameters: parameters.map(Value::to_string).unwrap_or_default() })
}

/// Whether a call must be, and of which function.
pub(super) fn choice(fields: &Fields<'_>, tools: &[ChatTool]) -> Result<Choice, ApiError> {
    let wanted = "auto, none, required or {\"type\": \"function\", \"function\": {\"name\": …}}";
    let choice = match fields.get("tool_choice") {
        None => Choice::Auto,
        Some(value @ Value::String(_)) => {
            choice_of(value).ok_or_else(|| fields.wrong("tool_choice", wanted))?
        }
        Some(value) => match value["function"]["name"].as_str() {
            Some(name) if value["type"] == "function" => Choice::Named(name.to_owned()),
            _ => return Err(fields.wrong("tool_choice", wanted)),
        },
    };
    check_choice(fields, "tool_choice", choice, tools)
}

/// A function that must be called is one of the tools.
pub(crate) fn check_choice(
    fields: &Fields<'_>,
    field: &str,
    choice: Choice,
    tools: &[ChatTool],
) -> Result<Choice, ApiError> {
    let is_there = match &choice {
        Choice::Auto | Choice::None => true,
        Choice::Required => !tools.is_empty(),
        Choice::Named(name) => tools.iter().any(|tool| tool.name == *name),
    };
    if is_there { Ok(choice) } else { Err(fields.wrong(field, "a function that tools has")) }
}
