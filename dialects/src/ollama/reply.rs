//! Replies as JSON lines, or as one line that holds all.

use serde_json::{Value, json};

use crate::error::Dialect;
use crate::reply::*;
use crate::served::timestamp;

/// The form of a chat, or of a text that goes on.
pub(super) struct OllamaForm {
    pub is_chat: bool,
}

impl OllamaForm {
    fn line(&self, facts: &ReplyFacts, message: Value, is_done: bool) -> Value {
        let mut line = json!({ "model": facts.model, "created_at": timestamp(facts.created) });
        if self.is_chat {
            line["message"] = message;
        } else {
            line["response"] = message["content"].clone();
            if let Some(thinking) = message.get("thinking") {
                line["thinking"] = thinking.clone();
            }
        }
        line["done"] = is_done.into();
        line
    }

    /// The line that ends a reply, with what the message still has to say.
    fn last(&self, facts: &ReplyFacts, message: Value, ending: Option<&Ending>, usage: &Usage) -> Value {
        let mut line = self.line(facts, message, true);
        line["done_reason"] = match ending {
            None => "load",
            Some(Ending::Length | Ending::ContextFull) => "length",
            Some(_) => "stop",
        }
        .into();
        let ns = |us: u64| us.saturating_mul(1000);
        line["total_duration"] = ns(usage.total_us).into();
        line["load_duration"] = 0.into();
        line["prompt_eval_count"] = usage.prompt_tokens.into();
        line["prompt_eval_duration"] = ns(usage.prompt_us).into();
        line["eval_count"] = usage.completion_tokens.into();
        line["eval_duration"] = ns(usage.completion_us).into();
        line
    }
}

fn message(content: &str) -> Value {
    json!({ "role": "assistant", "content": content })
}

fn call(call: &CollectedCall) -> Value {
    json!({ "id": call.id, "function": { "name": call.name, "arguments": call.object() } })
}

impl ReplyForm for OllamaForm {
    fn stream(&self, facts: ReplyFacts) -> Box<dyn ReplyWriter> {
        let form = Self { is_chat: self.is_chat };
        Box::new(LineWriter { form, facts, ending: None, open_call: None })
    }

    fn whole(&self, facts: &ReplyFacts, collected: &Collected) -> Value {
        let reply = collected.replies.first().cloned().unwrap_or_default();
        let mut said = message(&reply.content());
        let reasoning = reply.reasoning();
        if !reasoning.is_empty() {
            said["thinking"] = reasoning.into();
        }
        let calls: Vec<Value> = reply.calls().map(call).collect();
        if !calls.is_empty() {
            said["tool_calls"] = calls.into();
        }
        self.last(facts, said, reply.ending.as_ref(), &collected.usage)
    }
}

/// Writes lines. A call is written when it is whole.
struct LineWriter {
    form: OllamaForm,
    facts: ReplyFacts,
    ending: Option<Ending>,
    open_call: Option<CollectedCall>,
}

impl LineWriter {
    fn push(&self, line: &Value, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{line}\n").as_bytes());
    }

    fn part(&mut self, part: &ReplyPart) -> Option<Value> {
        match part {
            ReplyPart::Content(text) => Some(message(text)),
            ReplyPart::Reasoning(text) => {
                let mut said = message("");
                said["thinking"] = text.as_str().into();
                Some(said)
            }
            ReplyPart::CallBegin { id, name } => {
                let (id, name) = (id.clone(), name.clone());
                self.open_call = Some(CollectedCall { id, name, arguments: String::new() });
                None
            }
            ReplyPart::CallArguments(text) => {
                if let Some(call) = &mut self.open_call {
                    call.arguments.push_str(text);
                }
                None
            }
            ReplyPart::CallEnd => {
                let whole = self.open_call.take()?;
                let mut said = message("");
                said["tool_calls"] = json!([call(&whole)]);
                Some(said)
            }
        }
    }
}

impl ReplyWriter for LineWriter {
    fn write(&mut self, event: &ReplyEvent, out: &mut Vec<u8>) {
        match event {
            ReplyEvent::Admitted { .. } | ReplyEvent::Begun { .. } => {}
            ReplyEvent::Part { part, .. } => {
                if let Some(said) = self.part(part) {
                    self.push(&self.form.line(&self.facts, said, false), out);
                }
            }
            ReplyEvent::ReplyEnded { ending, .. } => self.ending = Some(ending.clone()),
            ReplyEvent::Ended(usage) => {
                let last = self.form.last(&self.facts, message(""), self.ending.as_ref(), usage);
                self.push(&last, out);
            }
            ReplyEvent::Failed(error) => self.push(&error.body(Dialect::Ollama, &self.facts.id), out),
        }
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        self.push(&self.form.line(&self.facts, message(""), false), out);
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }
}
