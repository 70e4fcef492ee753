//! The response as events: each with its number, items one after the other.

use serde_json::{Value, json};

use super::reply::{Item, Kind, ResponseForm};
use crate::error::ApiError;
use crate::reply::*;

/// Writes events.
pub(super) struct ResponseWriter {
    form: ResponseForm,
    facts: ReplyFacts,
    /// Number of the next event.
    number: u64,
    has_begun: bool,
    /// The item that is open.
    open: Option<Item>,
    /// Items that are whole.
    output: Vec<Value>,
    ending: Option<Ending>,
}

impl ResponseWriter {
    pub fn new(form: ResponseForm, facts: ReplyFacts) -> Self {
        Self { form, facts, number: 0, has_begun: false, open: None, output: Vec::new(), ending: None }
    }

    fn event(&mut self, name: &str, mut data: Value, out: &mut Vec<u8>) {
        data["type"] = name.into();
        data["sequence_number"] = self.number.into();
        self.number += 1;
        named_event(name, &data, out);
    }

    fn in_progress(&self) -> Value {
        json!({ "response": self.form.object(&self.facts, Vec::new(), None, None) })
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.event("response.created", self.in_progress(), out);
            self.event("response.in_progress", self.in_progress(), out);
        }
    }

    fn index(&self) -> u32 {
        self.output.len() as u32
    }

    /// Where an event belongs.
    fn place(&self, item: &Item, mut data: Value) -> Value {
        data["item_id"] = item.id.as_str().into();
        data["output_index"] = self.index().into();
        if !matches!(item.kind, Kind::Call { .. }) {
            data["content_index"] = 0.into();
        }
        data
    }

    fn start(&mut self, item: Item, out: &mut Vec<u8>) {
        let added = json!({ "output_index": self.index(), "item": item.added() });
        self.event("response.output_item.added", added, out);
        if !matches!(item.kind, Kind::Call { .. }) {
            let part = self.place(&item, json!({ "part": item.part("") }));
            self.event("response.content_part.added", part, out);
        }
        self.open = Some(item);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let Some(item) = self.open.take() else { return };
        let text = item.text.as_str();
        let (name, done) = match &item.kind {
            Kind::Message => ("response.output_text.done", json!({ "text": text, "logprobs": [] })),
            Kind::Reasoning => ("response.reasoning_text.done", json!({ "text": text })),
            Kind::Call { name, .. } => {
                ("response.function_call_arguments.done", json!({ "name": name, "arguments": text }))
            }
        };
        let done = self.place(&item, done);
        self.event(name, done, out);
        if !matches!(item.kind, Kind::Call { .. }) {
            let part = self.place(&item, json!({ "part": item.part(text) }));
            self.event("response.content_part.done", part, out);
        }
        let whole = item.done();
        let done = json!({ "output_index": self.index(), "item": whole });
        self.event("response.output_item.done", done, out);
        self.output.push(whole);
    }

    /// Goes on with the open item, or begins one of this kind.
    fn more(&mut self, kind: Option<Kind>, text: &str, out: &mut Vec<u8>) {
        if let Some(kind) = kind
            && self.open.as_ref().is_none_or(|item| item.kind != kind)
        {
            self.close(out);
            self.start(Item::new(&self.facts, self.index(), kind), out);
        }
        let Some(mut item) = self.open.take() else { return };
        let (name, delta) = match item.kind {
            Kind::Message => ("response.output_text.delta", json!({ "delta": text, "logprobs": [] })),
            Kind::Reasoning => ("response.reasoning_text.delta", json!({ "delta": text })),
            Kind::Call { .. } => ("response.function_call_arguments.delta", json!({ "delta": text })),
        };
        let delta = self.place(&item, delta);
        self.event(name, delta, out);
        item.text.push_str(text);
        self.open = Some(item);
    }

    fn part(&mut self, part: &ReplyPart, out: &mut Vec<u8>) {
        match part {
            ReplyPart::Content(text) => self.more(Some(Kind::Message), text, out),
            ReplyPart::Reasoning(text) => self.more(Some(Kind::Reasoning), text, out),
            ReplyPart::CallBegin { id, name } => {
                self.close(out);
                let item = Item::call(&self.facts, self.index(), id, name, &self.form.names);
                self.start(item, out);
            }
            ReplyPart::CallArguments(text) => self.more(None, text, out),
            ReplyPart::CallEnd => self.close(out),
        }
    }

    fn end(&mut self, usage: &Usage, out: &mut Vec<u8>) {
        // A call that was cut off is no call.
        if self.open.as_ref().is_some_and(|item| matches!(item.kind, Kind::Call { .. })) {
            self.open = None;
        }
        self.close(out);
        let ending = self.ending.clone().unwrap_or(Ending::Stop);
        let output = std::mem::take(&mut self.output);
        let object = self.form.object(&self.facts, output, Some(&ending), Some(usage));
        // One client takes this event for a failure, and the status within for what it is.
        let is_cut = object["status"] == "incomplete" && !self.form.is_codex;
        let name = if is_cut { "response.incomplete" } else { "response.completed" };
        self.event(name, json!({ "response": object }), out);
    }

    fn fail(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        self.begin(out);
        let mut object = self.form.object(&self.facts, Vec::new(), None, None);
        object["status"] = "failed".into();
        let code = error.openai_kind().1.unwrap_or("server_error");
        object["error"] = json!({ "code": code, "message": error.openai_message() });
        self.event("response.failed", json!({ "response": object }), out);
    }
}

impl ReplyWriter for ResponseWriter {
    fn write(&mut self, event: &ReplyEvent, out: &mut Vec<u8>) {
        match event {
            ReplyEvent::Admitted { .. } => self.begin(out),
            ReplyEvent::Begun { .. } => {}
            ReplyEvent::Part { part, .. } => self.part(part, out),
            ReplyEvent::ReplyEnded { ending, .. } => self.ending = Some(ending.clone()),
            ReplyEvent::Ended(usage) => self.end(usage, out),
            ReplyEvent::Failed(error) => self.fail(error, out),
        }
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        // Its client counts events, not comments.
        self.event("response.in_progress", self.in_progress(), out);
    }

    fn framing(&self) -> Framing {
        Framing::Events
    }
}
