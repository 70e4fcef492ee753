//! `POST /v1/chat/completions`, the response: whole, and as chunks.

use serde_json::{Value, json};

use super::{finish_reason, usage_json};
use crate::reply::*;

/// The form of a chat completion.
pub(super) struct ChatForm {
    pub usage_in_stream: bool,
}

/// What a response names the build by, so that equal seeds can be told from equal builds.
fn fingerprint() -> String {
    format!("fanlight-{}", env!("CARGO_PKG_VERSION"))
}

impl ReplyForm for ChatForm {
    fn stream(&self, facts: ReplyFacts) -> Box<dyn ReplyWriter> {
        let usage_in_stream = self.usage_in_stream;
        Box::new(ChatWriter { facts, usage_in_stream, begun: Vec::new(), calls: Vec::new() })
    }

    fn whole(&self, facts: &ReplyFacts, collected: &Collected) -> Value {
        let choices: Vec<Value> = (0..).zip(&collected.replies).map(|(i, reply)| choice(i, reply)).collect();
        json!({
            "id": format!("chatcmpl-{}", facts.id),
            "object": "chat.completion",
            "created": facts.created,
            "model": facts.model,
            "system_fingerprint": fingerprint(),
            "choices": choices,
            "usage": usage_json(&collected.usage),
        })
    }
}

fn choice(index: u32, reply: &CollectedReply) -> Value {
    let (content, reasoning) = (reply.content(), reply.reasoning());
    let calls: Vec<Value> = reply
        .calls()
        .map(|call| {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            json!({ "id": call_id(&call.id), "type": "function", "function": function })
        })
        .collect();
    let is_silent = content.is_empty() && !calls.is_empty();
    let content = if is_silent { Value::Null } else { content.into() };
    let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
    if !reasoning.is_empty() {
        message["reasoning_content"] = reasoning.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let finish_reason = reply.ending.as_ref().map(finish_reason);
    json!({ "index": index, "message": message, "finish_reason": finish_reason, "logprobs": null })
}

fn call_id(id: &str) -> String {
    format!("call_{id}")
}

/// Writes chunks.
struct ChatWriter {
    facts: ReplyFacts,
    usage_in_stream: bool,
    /// Replies whose first chunk is written.
    begun: Vec<bool>,
    /// Calls of each reply so far.
    calls: Vec<u32>,
}

impl ChatWriter {
    fn chunk(&self, choices: Value) -> Value {
        let mut chunk = json!({
            "id": format!("chatcmpl-{}", self.facts.id),
            "object": "chat.completion.chunk",
            "created": self.facts.created,
            "model": self.facts.model,
            "system_fingerprint": fingerprint(),
            "choices": choices,
        });
        if self.usage_in_stream {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn delta(&self, index: u32, delta: Value, ending: Option<&Ending>, out: &mut Vec<u8>) {
        let finish_reason = ending.map(finish_reason);
        let choice =
            json!({ "index": index, "delta": delta, "finish_reason": finish_reason, "logprobs": null });
        data_event(&self.chunk(json!([choice])), out);
    }

    /// The chunk that begins a reply, unless it is written already.
    fn begin(&mut self, index: u32, out: &mut Vec<u8>) {
        let place = index as usize;
        if self.begun.len() <= place {
            self.begun.resize(place + 1, false);
            self.calls.resize(place + 1, 0);
        }
        if !std::mem::replace(&mut self.begun[place], true) {
            self.delta(index, json!({ "role": "assistant", "content": "" }), None, out);
        }
    }

    fn part(&mut self, index: u32, part: &ReplyPart, out: &mut Vec<u8>) {
        let call = self.calls[index as usize];
        let delta = match part {
            ReplyPart::Reasoning(text) => json!({ "reasoning_content": text }),
            ReplyPart::Content(text) => json!({ "content": text }),
            ReplyPart::CallBegin { id, name } => {
                let function = json!({ "name": name, "arguments": "" });
                let begun =
                    json!({ "index": call, "id": call_id(id), "type": "function", "function": function });
                json!({ "tool_calls": [begun] })
            }
            ReplyPart::CallArguments(text) => {
                json!({ "tool_calls": [{ "index": call, "function": { "arguments": text } }] })
            }
            ReplyPart::CallEnd => {
                self.calls[index as usize] += 1;
                return;
            }
        };
        self.delta(index, delta, None, out);
    }
}

impl ReplyWriter for ChatWriter {
    fn write(&mut self, event: &ReplyEvent, out: &mut Vec<u8>) {
        match event {
            ReplyEvent::Admitted { .. } => self.begin(0, out),
            ReplyEvent::Begun { .. } => {}
            ReplyEvent::Part { index, part } => {
                self.begin(*index, out);
                self.part(*index, part, out);
            }
            ReplyEvent::ReplyEnded { index, ending } => {
                self.begin(*index, out);
                self.delta(*index, json!({}), Some(ending), out);
            }
            ReplyEvent::Ended(usage) => {
                if self.usage_in_stream {
                    let mut chunk = self.chunk(json!([]));
                    chunk["usage"] = usage_json(usage);
                    data_event(&chunk, out);
                }
                out.extend_from_slice(b"data: [DONE]\n\n");
            }
            // Without [DONE]: no client takes it for a whole reply.
            ReplyEvent::Failed(error) => data_event(&json!({ "error": error.openai() }), out),
        }
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b": ping\n\n");
    }

    fn framing(&self) -> Framing {
        Framing::Events
    }
}
