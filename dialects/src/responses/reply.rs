//! The response object, and its items.

use serde_json::{Value, json};

use super::tools::Names;
use super::writer::ResponseWriter;
use crate::reply::*;

/// The form of a response.
#[derive(Debug, Clone)]
pub(super) struct ResponseForm {
    pub names: Names,
    /// What is repeated of the request.
    pub echo: Value,
    pub is_codex: bool,
}

impl ReplyForm for ResponseForm {
    fn stream(&self, facts: ReplyFacts) -> Box<dyn ReplyWriter> {
        Box::new(ResponseWriter::new(self.clone(), facts))
    }

    fn whole(&self, facts: &ReplyFacts, collected: &Collected) -> Value {
        let reply = collected.replies.first().cloned().unwrap_or_default();
        let items = (0..).zip(&reply.parts).map(|(index, part)| {
            let item = Item::of(facts, index, part, &self.names);
            item.done()
        });
        self.object(facts, items.collect(), reply.ending.as_ref(), Some(&collected.usage))
    }
}

impl ResponseForm {
    /// The object; without an ending it is in progress.
    pub fn object(
        &self,
        facts: &ReplyFacts,
        output: Vec<Value>,
        ending: Option<&Ending>,
        usage: Option<&Usage>,
    ) -> Value {
        let is_cut = matches!(ending, Some(Ending::Length | Ending::ContextFull));
        let status = match ending {
            None => "in_progress",
            Some(_) if is_cut => "incomplete",
            Some(_) => "completed",
        };
        let mut object = json!({
            "id": format!("resp_{}", facts.id),
            "object": "response",
            "created_at": facts.created,
            "status": status,
            "model": facts.model,
            "output": output,
            "usage": usage.map(usage_json),
            "error": null,
            "incomplete_details": if is_cut { json!({ "reason": "max_output_tokens" }) } else { Value::Null },
        });
        if let (Value::Object(object), Value::Object(echo)) = (&mut object, &self.echo) {
            object.extend(echo.clone());
        }
        object
    }
}

fn usage_json(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": { "cached_tokens": usage.cached_tokens },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": { "reasoning_tokens": usage.reasoning_tokens },
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    })
}

/// What an item is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    Reasoning,
    Call { call_id: String, namespace: Option<String>, name: String },
}

/// An item of the output, as far as it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub id: String,
    pub kind: Kind,
    /// Its text, thoughts or arguments.
    pub text: String,
}

impl Item {
    /// An empty one; its place in the output makes its id.
    pub fn new(facts: &ReplyFacts, index: u32, kind: Kind) -> Self {
        let prefix = match kind {
            Kind::Message => "msg",
            Kind::Reasoning => "rs",
            Kind::Call { .. } => "fc",
        };
        Self { id: format!("{prefix}_{}{index:02}", facts.id), kind, text: String::new() }
    }

    /// A call of a function.
    pub fn call(facts: &ReplyFacts, index: u32, id: &str, flat: &str, names: &Names) -> Self {
        let (namespace, name) = names.parts(flat);
        let (call_id, namespace) = (format!("call_{id}"), namespace.map(str::to_owned));
        Self::new(facts, index, Kind::Call { call_id, namespace, name })
    }

    fn of(facts: &ReplyFacts, index: u32, part: &CollectedPart, names: &Names) -> Self {
        match part {
            CollectedPart::Content(text) => {
                Self { text: text.clone(), ..Self::new(facts, index, Kind::Message) }
            }
            CollectedPart::Reasoning(text) => {
                Self { text: text.clone(), ..Self::new(facts, index, Kind::Reasoning) }
            }
            CollectedPart::Call(call) => {
                let item = Self::call(facts, index, &call.id, &call.name, names);
                Self { text: call.arguments.clone(), ..item }
            }
        }
    }

    /// As it is when it begins: without text.
    pub fn added(&self) -> Value {
        self.json("in_progress", "", Vec::new())
    }

    /// As it is when it is whole.
    pub fn done(&self) -> Value {
        self.json("completed", &self.text, vec![self.part(&self.text)])
    }

    /// Its one part of content.
    pub fn part(&self, text: &str) -> Value {
        match self.kind {
            Kind::Reasoning => json!({ "type": "reasoning_text", "text": text }),
            _ => json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] }),
        }
    }

    fn json(&self, status: &str, text: &str, content: Vec<Value>) -> Value {
        let id = &self.id;
        match &self.kind {
            Kind::Message => {
                let role = "assistant";
                json!({ "type": "message", "id": id, "status": status, "role": role, "content": content })
            }
            Kind::Reasoning => {
                json!({ "type": "reasoning", "id": id, "status": status, "summary": [], "content": content })
            }
            Kind::Call { call_id, namespace, name } => {
                let mut item = json!({
                    "type": "function_call",
                    "id": id,
                    "status": status,
                    "call_id": call_id,
                    "name": name,
                    "arguments": text,
                });
                if let Some(namespace) = namespace {
                    item["namespace"] = namespace.as_str().into();
                }
                item
            }
        }
    }
}
