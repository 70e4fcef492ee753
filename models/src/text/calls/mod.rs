//! Calls of functions in a reply: found while it arrives, one file per form in which models write them.
//!
//! Which form a model uses is read off its template. Text is held back only while it may begin a call, and a
//! stretch that turns out to be none is content after all. A mark inside a string or parameter ends nothing.

mod form;
mod marked;
mod object;
mod parameters;
mod whole;

pub use form::CallForm;

use fanlight_messages::protocol::chat::{ChatTool, ChatTools};
use fanlight_messages::reply::{CallPart, ReplyPart};
use serde_json::Value;

use marked::Marked;
use whole::Whole;

/// A function that may be called.
#[derive(Debug, Clone, PartialEq)]
struct Function {
    name: String,
    /// The schema of its arguments; `Null` for none.
    schema: Value,
}

/// Splits the answer of a reply into content and calls while it arrives.
#[derive(Debug, Clone)]
pub struct CallSplitter {
    functions: Vec<Function>,
    one_call: bool,
    form: CallForm,
    reader: Reader,
    /// Calls that are complete.
    calls: u32,
}

fn arguments(text: impl Into<String>) -> ReplyPart {
    ReplyPart::Call(CallPart::Arguments(text.into()))
}

/// Where calls stand in an answer.
#[derive(Debug, Clone)]
enum Reader {
    /// Each between marks, content around them.
    Marked(Marked),
    /// The answer is one call or none.
    Whole(Whole),
}

impl CallSplitter {
    /// For these functions.
    pub fn new(form: CallForm, tools: &ChatTools) -> Self {
        let function = |tool: &ChatTool| Function {
            name: tool.name.clone(),
            schema: serde_json::from_str(&tool.parameters).unwrap_or(Value::Null),
        };
        let reader = match form {
            CallForm::Hermes | CallForm::QwenXml => Reader::Marked(Marked::new(form)),
            CallForm::Llama => Reader::Whole(Whole::default()),
        };
        Self {
            functions: tools.functions.iter().map(function).collect(),
            one_call: tools.one_call,
            form,
            reader,
            calls: 0,
        }
    }

    /// Adds what this text decides.
    pub fn push(&mut self, text: &str, parts: &mut Vec<ReplyPart>) {
        if self.is_over() {
            return;
        }
        let mut found = Vec::new();
        match &mut self.reader {
            Reader::Marked(reader) => reader.push(text, &self.functions, &mut found),
            Reader::Whole(reader) => reader.push(text, &self.functions, &mut found),
        }
        for part in found {
            if self.is_over() {
                return;
            }
            self.calls += u32::from(part == ReplyPart::Call(CallPart::End));
            ReplyPart::append(parts, part);
        }
    }

    /// True when nothing that follows belongs to the reply.
    pub fn is_over(&self) -> bool {
        self.one_call && self.calls > 0
    }

    /// Whether a control piece of this text is a mark: it counts although it is no text otherwise.
    pub fn has_mark(&self, text: &str) -> bool {
        self.form.marks().contains(&text)
    }

    /// Calls that are complete.
    pub fn calls(&self) -> u32 {
        self.calls
    }

    /// What was held back when the reply ended; a call that is not complete stays open.
    pub fn finish(self, parts: &mut Vec<ReplyPart>) {
        if self.is_over() {
            return;
        }
        let rest = match self.reader {
            Reader::Marked(reader) => reader.finish(),
            Reader::Whole(reader) => reader.finish(),
        };
        if !rest.trim().is_empty() || self.calls == 0 && !rest.is_empty() {
            ReplyPart::append(parts, ReplyPart::Content(rest));
        }
    }
}
