//! Messages of a conversation, and the one form in which every template gets them.

use serde_json::{Map, Value, json};

/// Who speaks. A closed set: templates put the name between control texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions for the whole conversation.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The result of a tool the model called.
    Tool,
}

impl Role {
    /// The name templates know.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// A tool the model called.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Name of the call, to which its result refers.
    pub id: Option<String>,
    /// Name of the tool.
    pub name: String,
    /// An object, or the same as JSON text; both mean the same.
    pub arguments: Value,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said; `None` is the same as empty.
    pub content: Option<String>,
    /// What the model thought before it answered, if that is kept.
    pub reasoning_content: Option<String>,
    /// Tools the model called in this message.
    pub tool_calls: Vec<ToolCall>,
    /// For [`Role::Tool`]: the call this is the result of.
    pub tool_call_id: Option<String>,
    /// Name of the speaker or tool.
    pub name: Option<String>,
}

impl ChatMessage {
    /// A message that is only text.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        let (reasoning_content, tool_call_id, name) = (None, None, None);
        let content = Some(content.into());
        Self { role, content, reasoning_content, tool_calls: Vec::new(), tool_call_id, name }
    }

    fn text(&self) -> &str {
        self.content.as_deref().unwrap_or_default()
    }
}

/// How templates want the arguments of tool calls: most take an object, some append text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arguments {
    Object,
    Text,
}

/// What was changed so that a template accepts the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adjustment {
    /// Neighbours of one role became one message.
    NeighboursMerged,
    /// The system text was put before the first message of the user.
    SystemMovedToUser,
}

/// Messages as templates see them. Every message has `content`; what is absent has no key.
pub(super) fn to_json(messages: &[ChatMessage], arguments: Arguments) -> Value {
    messages.iter().map(|message| message_json(message, arguments)).collect()
}

fn message_json(message: &ChatMessage, arguments: Arguments) -> Value {
    let mut object = Map::new();
    object.insert("role".to_owned(), message.role.name().into());
    object.insert("content".to_owned(), message.text().into());
    let optional = [
        ("reasoning_content", &message.reasoning_content),
        ("tool_call_id", &message.tool_call_id),
        ("name", &message.name),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            object.insert(key.to_owned(), value.as_str().into());
        }
    }
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            let arguments = arguments_json(&call.arguments, arguments);
            let function = json!({ "name": call.name, "arguments": arguments });
            match &call.id {
                Some(id) => json!({ "id": id, "type": "function", "function": function }),
                None => json!({ "type": "function", "function": function }),
            }
        });
        object.insert("tool_calls".to_owned(), calls.collect());
    }
    Value::Object(object)
}

fn arguments_json(given: &Value, wanted: Arguments) -> Value {
    let object = match given {
        Value::Null => json!({}),
        Value::String(text) if text.trim().is_empty() => json!({}),
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| given.clone()),
        other => other.clone(),
    };
    match (wanted, object) {
        // Text that is no JSON is handed on as it is in both forms.
        (Arguments::Text, Value::String(text)) => Value::String(text),
        (Arguments::Text, object) => Value::String(object.to_string()),
        (Arguments::Object, object) => object,
    }
}

/// Ways to put the same conversation, from none to the strongest adjustment. A template that refuses one may
/// accept the next.
pub(super) fn variants(messages: &[ChatMessage]) -> Vec<(Vec<ChatMessage>, Vec<Adjustment>)> {
    let mut variants = vec![(messages.to_vec(), Vec::new())];
    let merged = merge_neighbours(messages);
    let mut adjustments = Vec::new();
    if merged.len() < messages.len() {
        adjustments.push(Adjustment::NeighboursMerged);
        variants.push((merged.clone(), adjustments.clone()));
    }
    if let Some(moved) = move_system(&merged) {
        // Moving the system text may leave two messages of the user side by side.
        adjustments.push(Adjustment::SystemMovedToUser);
        variants.push((merge_neighbours(&moved), adjustments));
    }
    variants
}

fn merge_neighbours(messages: &[ChatMessage]) -> Vec<ChatMessage> {
    let mut merged: Vec<ChatMessage> = Vec::with_capacity(messages.len());
    for message in messages {
        let joins = |last: &&mut ChatMessage| {
            last.role == message.role
                && message.role != Role::Tool
                && last.name == message.name
                && last.tool_calls.is_empty()
                && message.tool_calls.is_empty()
        };
        match merged.last_mut().filter(joins) {
            Some(last) => {
                last.content = Some(join(last.text(), message.text()));
                last.reasoning_content = last.reasoning_content.take().or(message.reasoning_content.clone());
            }
            None => merged.push(message.clone()),
        }
    }
    merged
}

/// The conversation without its leading system message, whose text goes before that of the first user
/// message.
fn move_system(messages: &[ChatMessage]) -> Option<Vec<ChatMessage>> {
    let (system, rest) = messages.split_first().filter(|(first, _)| first.role == Role::System)?;
    let mut rest = rest.to_vec();
    let user = rest.iter_mut().find(|message| message.role == Role::User)?;
    user.content = Some(join(system.text(), user.text()));
    Some(rest)
}

fn join(first: &str, second: &str) -> String {
    match (first.is_empty(), second.is_empty()) {
        (true, _) => second.to_owned(),
        (_, true) => first.to_owned(),
        _ => format!("{first}\n\n{second}"),
    }
}

/// Moves reasoning that stands in the text of the model's messages to `reasoning_content`, as templates that
/// look for it in the text would. Says whether any was found.
pub(super) fn lift_reasoning(messages: &mut [ChatMessage]) -> bool {
    let mut found = false;
    for message in messages.iter_mut().filter(|message| message.role == Role::Assistant) {
        let Some((thought, answer)) = message.text().rsplit_once("</think>") else { continue };
        let thought = thought.rsplit_once("<think>").map_or(thought, |(_, thought)| thought);
        let (thought, answer) =
            (thought.trim_matches('\n').to_owned(), answer.trim_start_matches('\n').to_owned());
        message.reasoning_content.get_or_insert(thought);
        message.content = Some(answer);
        found = true;
    }
    found
}
