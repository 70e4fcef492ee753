//! Messages of a conversation, and the one form in which every template gets them.

use fanlight_messages::warning::Warning;
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

/// How templates want the text of a message: most take a string, some a list of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Content {
    #[default]
    Text,
    Parts,
}

/// How messages are put for a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    pub content: Content,
    pub arguments: Arguments,
}

/// Messages as templates see them, every supplied text passed through `mark`. Every message has `content`;
/// what is absent has no key.
pub(super) fn to_json(messages: &[ChatMessage], form: Form, mark: &Mark) -> Value {
    messages.iter().map(|message| message_json(message, form, mark)).collect()
}

fn message_json(message: &ChatMessage, form: Form, mark: &Mark) -> Value {
    let mut object = Map::new();
    object.insert("role".to_owned(), message.role.name().into());
    let content = match form.content {
        Content::Text => mark(message.text(), false).into(),
        Content::Parts => json!([{ "type": "text", "text": mark(message.text(), false) }]),
    };
    object.insert("content".to_owned(), content);
    let optional = [
        ("reasoning_content", &message.reasoning_content),
        ("tool_call_id", &message.tool_call_id),
        ("name", &message.name),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            object.insert(key.to_owned(), mark(value, false).into());
        }
    }
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            let arguments = mark_json(&arguments_json(&call.arguments, form.arguments), mark);
            let function = json!({ "name": mark(&call.name, false), "arguments": arguments });
            match &call.id {
                Some(id) => json!({ "id": mark(id, false), "type": "function", "function": function }),
                None => json!({ "type": "function", "function": function }),
            }
        });
        object.insert("tool_calls".to_owned(), calls.collect());
    }
    Value::Object(object)
}

/// Passes a supplied text through; the second argument says that it is a key, by which a template finds
/// things.
pub(super) type Mark<'a> = dyn Fn(&str, bool) -> String + 'a;

/// Leaves every text as it is.
pub(super) fn unmarked(text: &str, _: bool) -> String {
    text.to_owned()
}

/// A supplied value with every text in it passed through `mark`.
pub(super) fn mark_json(value: &Value, mark: &Mark) -> Value {
    match value {
        Value::String(text) => Value::String(mark(text, false)),
        Value::Array(items) => items.iter().map(|item| mark_json(item, mark)).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, item)| (mark(key, true), mark_json(item, mark))).collect()
        }
        other => other.clone(),
    }
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

/// A conversation as a template may take it, and what was changed for that.
pub(super) type Variant = (Vec<ChatMessage>, Vec<Warning>);

/// Ways to put the same conversation, from none to the strongest adjustment. A template that refuses one may
/// accept the next; for one that leaves out system messages they are moved in all of them.
pub(super) fn variants(messages: &[ChatMessage], loses_system: bool) -> Vec<Variant> {
    let mut variants: Vec<Variant> = Vec::new();
    let mut add = |messages: Vec<ChatMessage>, warnings: &[Warning]| {
        let merged = merge_neighbours(&messages);
        let joined =
            (merged.len() < messages.len()).then(|| [&[Warning::NeighboursJoined], warnings].concat());
        variants.push((messages, warnings.to_vec()));
        variants.extend(joined.map(|warnings| (merged, warnings)));
    };
    let moved = [Warning::SystemMovedToUser];
    let all_moved = move_system(messages, 0);
    if !loses_system || all_moved.is_none() {
        add(messages.to_vec(), &[]);
        // Some templates take a system message at the beginning only.
        move_system(messages, 1).into_iter().for_each(|messages| add(messages, &moved));
    }
    all_moved.into_iter().for_each(|messages| add(messages, &moved));
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

/// The conversation without the system messages from position `first` on; each one's text goes before that of
/// the next message of the user, or behind the last one. `None` when there is none to move, or no user.
fn move_system(messages: &[ChatMessage], first: usize) -> Option<Vec<ChatMessage>> {
    let is_moved = |at: usize, message: &ChatMessage| at >= first && message.role == Role::System;
    messages.iter().enumerate().find(|(at, message)| is_moved(*at, message))?;
    let mut moved: Vec<ChatMessage> = Vec::with_capacity(messages.len());
    let mut waiting = String::new();
    for (at, message) in messages.iter().enumerate() {
        let mut message = message.clone();
        if is_moved(at, &message) {
            waiting = join(&waiting, message.text());
            continue;
        }
        if message.role == Role::User && !waiting.is_empty() {
            message.content = Some(join(&std::mem::take(&mut waiting), message.text()));
        }
        moved.push(message);
    }
    let last = moved.iter_mut().rfind(|message| message.role == Role::User)?;
    last.content = Some(join(last.text(), &waiting));
    Some(moved)
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
