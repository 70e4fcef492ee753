//! `POST /v1/messages`, the response: whole, and as events of blocks that never overlap.

use serde_json::{Value, json};

use crate::error::Dialect;
use crate::reply::*;

/// The form of a message.
pub(super) struct MessageForm;

impl ReplyForm for MessageForm {
    fn stream(&self, facts: ReplyFacts) -> Box<dyn ReplyWriter> {
        Box::new(MessageWriter {
            facts,
            prompt_tokens: 0,
            cached_tokens: 0,
            has_begun: false,
            block: None,
            blocks: 0,
            ending: None,
        })
    }

    fn whole(&self, facts: &ReplyFacts, collected: &Collected) -> Value {
        let reply = collected.replies.first();
        let parts = reply.map_or(&[][..], |reply| &reply.parts);
        let (reason, sequence) = stop(reply.and_then(|reply| reply.ending.as_ref()));
        let usage = &collected.usage;
        let mut message = head(facts, usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens);
        message["content"] = parts.iter().map(block).collect();
        message["stop_reason"] = reason;
        message["stop_sequence"] = sequence;
        message
    }
}

fn head(facts: &ReplyFacts, prompt_tokens: u32, cached_tokens: u32, output_tokens: u32) -> Value {
    json!({
        "id": format!("msg_{}", facts.id),
        "type": "message",
        "role": "assistant",
        "model": facts.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": usage(prompt_tokens, cached_tokens, output_tokens),
    })
}

/// What was read from the cache does not count as input.
fn usage(prompt_tokens: u32, cached_tokens: u32, output_tokens: u32) -> Value {
    json!({
        "input_tokens": prompt_tokens.saturating_sub(cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached_tokens,
        "output_tokens": output_tokens,
    })
}

fn block(part: &CollectedPart) -> Value {
    match part {
        CollectedPart::Reasoning(text) => json!({ "type": "thinking", "thinking": text, "signature": "" }),
        CollectedPart::Content(text) => json!({ "type": "text", "text": text }),
        CollectedPart::Call(call) => {
            let id = call_id(&call.id);
            json!({ "type": "tool_use", "id": id, "name": call.name, "input": call.object() })
        }
    }
}

fn call_id(id: &str) -> String {
    format!("toolu_{id}")
}

/// Reason and text that a reply ended for.
fn stop(ending: Option<&Ending>) -> (Value, Value) {
    match ending {
        None => (Value::Null, Value::Null),
        Some(Ending::Stop) => ("end_turn".into(), Value::Null),
        Some(Ending::StopText(text)) => ("stop_sequence".into(), text.as_str().into()),
        Some(Ending::Length) => ("max_tokens".into(), Value::Null),
        Some(Ending::ContextFull) => ("model_context_window_exceeded".into(), Value::Null),
        Some(Ending::ToolCalls) => ("tool_use".into(), Value::Null),
    }
}

/// Kinds of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Thinking,
    Text,
    Call,
}

/// Writes events.
struct MessageWriter {
    facts: ReplyFacts,
    prompt_tokens: u32,
    cached_tokens: u32,
    has_begun: bool,
    /// The block that is open.
    block: Option<Kind>,
    /// Blocks that are closed.
    blocks: u32,
    ending: Option<Ending>,
}

impl MessageWriter {
    fn event(&self, name: &str, mut data: Value, out: &mut Vec<u8>) {
        data["type"] = name.into();
        named_event(name, &data, out);
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            let message = head(&self.facts, self.prompt_tokens, self.cached_tokens, 0);
            self.event("message_start", json!({ "message": message }), out);
        }
    }

    fn open(&mut self, kind: Kind, content: Value, out: &mut Vec<u8>) {
        if self.block == Some(kind) && kind != Kind::Call {
            return;
        }
        self.close(out);
        self.block = Some(kind);
        self.event("content_block_start", json!({ "index": self.blocks, "content_block": content }), out);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.block.take().is_some() {
            self.event("content_block_stop", json!({ "index": self.blocks }), out);
            self.blocks += 1;
        }
    }

    fn delta(&self, delta: Value, out: &mut Vec<u8>) {
        self.event("content_block_delta", json!({ "index": self.blocks, "delta": delta }), out);
    }

    fn part(&mut self, part: &ReplyPart, out: &mut Vec<u8>) {
        match part {
            ReplyPart::Reasoning(text) => {
                let content = json!({ "type": "thinking", "thinking": "", "signature": "" });
                self.open(Kind::Thinking, content, out);
                self.delta(json!({ "type": "thinking_delta", "thinking": text }), out);
            }
            ReplyPart::Content(text) => {
                self.open(Kind::Text, json!({ "type": "text", "text": "" }), out);
                self.delta(json!({ "type": "text_delta", "text": text }), out);
            }
            ReplyPart::CallBegin { id, name } => {
                let content = json!({ "type": "tool_use", "id": call_id(id), "name": name, "input": {} });
                self.open(Kind::Call, content, out);
            }
            ReplyPart::CallArguments(text) => {
                self.delta(json!({ "type": "input_json_delta", "partial_json": text }), out);
            }
            ReplyPart::CallEnd => self.close(out),
        }
    }
}

impl ReplyWriter for MessageWriter {
    fn write(&mut self, event: &ReplyEvent, out: &mut Vec<u8>) {
        match event {
            ReplyEvent::Admitted { prompt_tokens } => self.prompt_tokens = *prompt_tokens,
            ReplyEvent::Begun { cached_tokens } => {
                self.cached_tokens = *cached_tokens;
                self.begin(out);
            }
            ReplyEvent::Part { part, .. } => {
                self.begin(out);
                self.part(part, out);
            }
            ReplyEvent::ReplyEnded { ending, .. } => self.ending = Some(ending.clone()),
            ReplyEvent::Ended(taken) => {
                self.begin(out);
                self.close(out);
                let (reason, sequence) = stop(self.ending.as_ref());
                let delta = json!({ "stop_reason": reason, "stop_sequence": sequence });
                let usage = usage(taken.prompt_tokens, taken.cached_tokens, taken.completion_tokens);
                self.event("message_delta", json!({ "delta": delta, "usage": usage }), out);
                self.event("message_stop", json!({}), out);
            }
            ReplyEvent::Failed(error) => {
                named_event("error", &error.body(Dialect::Anthropic, &self.facts.id), out);
            }
        }
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        self.event("ping", json!({}), out);
    }

    fn framing(&self) -> Framing {
        Framing::Events
    }
}
