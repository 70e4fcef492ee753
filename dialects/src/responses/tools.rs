//! Functions that a model may call, some of them in namespaces. A model is told one flat name; the response
//! gives back both.

use fanlight_messages::protocol::chat::ChatTool;
use serde_json::Value;

use crate::error::ApiError;
use crate::fields::Fields;
use crate::normal::{Choice, TOOLS_MAX};
use crate::openai::{check_choice, choice_of, named};

/// Between a namespace and a name.
const JOINT: &str = "__";

/// Flat names of functions in namespaces, with both parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Names(Vec<(String, String, String)>);

impl Names {
    /// Namespace and name that a flat name stands for.
    pub fn parts(&self, flat: &str) -> (Option<&str>, String) {
        match self.0.iter().find(|(known, ..)| known == flat) {
            Some((_, namespace, name)) => (Some(namespace), name.clone()),
            None => (None, flat.to_owned()),
        }
    }
}

/// The flat name of a function in a namespace.
pub(super) fn flat(namespace: &str, name: &str) -> String {
    format!("{namespace}{JOINT}{name}")
}

/// The functions of a request. Tools that the service itself would run are left out: nobody would answer.
pub(super) fn read(fields: &Fields<'_>) -> Result<(Vec<ChatTool>, Names), ApiError> {
    let mut tools = Vec::new();
    let mut names = Names::default();
    for tool in fields.objects("tools", TOOLS_MAX)? {
        match tool.text("type")? {
            Some("function") => tools.push(named(&tool, "parameters")?),
            Some("namespace") => {
                let namespace = tool.text("name")?.ok_or_else(|| tool.wrong("name", "a text"))?;
                for inner in tool.objects("tools", TOOLS_MAX)? {
                    if inner.text("type")?.is_none_or(|kind| kind == "function") {
                        let function = named(&inner, "parameters")?;
                        let flat = flat(namespace, &function.name);
                        names.0.push((flat.clone(), namespace.to_owned(), function.name.clone()));
                        tools.push(ChatTool { name: flat, ..function });
                    }
                }
            }
            _ => {}
        }
    }
    Ok((tools, names))
}

/// Whether a call must be, and of which function.
pub(super) fn choice(fields: &Fields<'_>, tools: &[ChatTool]) -> Result<Choice, ApiError> {
    let wanted = "auto, none, required or {\"type\": \"function\", \"name\": …}";
    let choice = match fields.get("tool_choice") {
        None => Choice::Auto,
        Some(value @ Value::String(_)) => {
            choice_of(value).ok_or_else(|| fields.wrong("tool_choice", wanted))?
        }
        Some(value) => match value["name"].as_str() {
            Some(name) if value["type"] == "function" => Choice::Named(name.to_owned()),
            _ => return Err(fields.wrong("tool_choice", wanted)),
        },
    };
    check_choice(fields, "tool_choice", choice, tools)
}
