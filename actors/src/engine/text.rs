//! The text of a reply, from ids to parts: whole characters, up to a stop text, thoughts apart from the
//! answer. Pure.

use std::rc::Rc;

use fanlight_messages::reply::ReplyPart;
use fanlight_models::text::calls::CallSplitter;
use fanlight_models::text::{Detokenizer, ReasoningSplitter, StopFilter, TextPosition, Tokenizer};

/// How a reply continues its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Continues {
    /// Text or ids: all of it is content.
    Plain,
    /// A conversation, which may end inside reasoning that this mark closes.
    Conversation { open_reasoning: Option<&'static str> },
}

/// Turns the ids of a reply into its parts as they come. Stop texts are looked for in thoughts too.
#[derive(Debug)]
pub(super) struct ReplyText {
    tokenizer: Rc<Tokenizer>,
    detokenizer: Detokenizer,
    stop: StopFilter,
    splitter: Option<ReasoningSplitter>,
    calls: Option<CallSplitter>,
}

impl ReplyText {
    /// A reply that ends before any of the `stop` texts.
    pub fn new(tokenizer: Rc<Tokenizer>, continues: Continues, stop: &[String]) -> Self {
        let detokenizer = Detokenizer::new(&tokenizer, TextPosition::Continuation);
        let splitter = match continues {
            Continues::Plain => None,
            Continues::Conversation { open_reasoning } => Some(ReasoningSplitter::new(open_reasoning)),
        };
        Self { tokenizer, detokenizer, stop: StopFilter::new(stop), splitter, calls: None }
    }

    /// The same reply, which may call functions.
    pub fn with_calls(self, calls: Option<CallSplitter>) -> Self {
        Self { calls, ..self }
    }

    /// Adds the parts that this id completes to `parts`.
    pub fn push(&mut self, id: u32, parts: &mut Vec<ReplyPart>) {
        // A mark of reasoning that the vocabulary types as control has no text, and is needed all the same.
        let awaits_mark = self.splitter.as_ref().is_some_and(ReasoningSplitter::awaits_mark);
        let mark = self.tokenizer.control_mark(id).filter(|_| awaits_mark);
        let calls = self.calls.as_ref();
        let mark = mark.or_else(|| {
            let control = self.tokenizer.control_text(id)?;
            calls.is_some_and(|calls| calls.has_mark(control)).then_some(control)
        });
        let text = match mark {
            Some(mark) => mark.to_owned(),
            None => self.detokenizer.push(&self.tokenizer, id),
        };
        let text = self.stop.push(&text);
        let said = split(self.splitter.as_mut(), text);
        said.into_iter().for_each(|part| self.tell(part, parts));
    }

    /// Looks for calls in an answer; thoughts have none.
    fn tell(&mut self, part: ReplyPart, parts: &mut Vec<ReplyPart>) {
        match (part, &mut self.calls) {
            (ReplyPart::Content(text), Some(calls)) => calls.push(&text, parts),
            (part, _) => ReplyPart::append(parts, part),
        }
    }

    /// True once a stop text has occurred, or the one call that is wanted: the reply is over.
    pub fn has_stopped(&self) -> bool {
        self.stop.has_stopped() || self.calls.as_ref().is_some_and(CallSplitter::is_over)
    }

    /// The stop text that has occurred.
    pub fn stop_text(&self) -> Option<&str> {
        self.stop.stopped_at()
    }

    /// Calls that are complete.
    pub fn calls(&self) -> u32 {
        self.calls.as_ref().map_or(0, CallSplitter::calls)
    }

    /// What was held back when the reply ended.
    pub fn finish(mut self) -> Vec<ReplyPart> {
        let mut text = self.stop.push(&self.detokenizer.clone().finish());
        text += &self.stop.clone().finish();
        let mut said = split(self.splitter.as_mut(), text);
        said.extend(self.splitter.take().and_then(ReasoningSplitter::finish));
        let mut parts = Vec::new();
        said.into_iter().for_each(|part| self.tell(part, &mut parts));
        if let Some(calls) = self.calls {
            calls.finish(&mut parts);
        }
        parts
    }
}

fn split(splitter: Option<&mut ReasoningSplitter>, text: String) -> Vec<ReplyPart> {
    match splitter {
        _ if text.is_empty() => Vec::new(),
        Some(splitter) => splitter.push(&text),
        None => vec![ReplyPart::Content(text)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fanlight_models::gguf::{Metadata, MetadataArray, MetadataValue};

    const NORMAL: i32 = 1;
    const CONTROL: i32 = 3;
    const USER_DEFINED: i32 = 4;

    /// Printable ASCII, and these pieces behind it.
    fn tokenizer(marks: &[(&str, i32)]) -> Rc<Tokenizer> {
        let letters = (33..127_u8).map(|byte| (char::from(byte).to_string(), NORMAL));
        let marks = marks.iter().map(|(mark, kind)| ((*mark).to_owned(), *kind));
        let (pieces, kinds): (Vec<String>, Vec<i32>) = letters.chain(marks).unzip();
        let strings = |items: &[String]| {
            MetadataValue::Array(MetadataArray::String(
                items.iter().map(|s| s.clone().into_bytes()).collect(),
            ))
        };
        let text = |text: &str| MetadataValue::String(text.as_bytes().to_vec());
        let entries = [
            ("tokenizer.ggml.model", text("gpt2")),
            ("tokenizer.ggml.pre", text("qwen2")),
            ("tokenizer.ggml.tokens", strings(&pieces)),
            ("tokenizer.ggml.token_type", MetadataValue::Array(MetadataArray::I32(kinds))),
            ("tokenizer.ggml.merges", strings(&[])),
        ];
        let entries = entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Rc::new(Tokenizer::from_metadata(&Metadata::new(entries)).unwrap())
    }

    /// Thoughts and answer of a reply of these pieces.
    fn parts(tokenizer: &Rc<Tokenizer>, continues: Continues, stop: &str, said: &[&str]) -> [String; 2] {
        let stop: Vec<String> = Some(stop.to_owned()).filter(|stop| !stop.is_empty()).into_iter().collect();
        let mut text = ReplyText::new(tokenizer.clone(), continues, &stop);
        let mut parts = Vec::new();
        for piece in said {
            let mut ids = (0..tokenizer.vocabulary_len() as u32)
                .filter(|id| tokenizer.token_bytes(*id) == piece.as_bytes());
            text.push(ids.next().unwrap(), &mut parts);
        }
        text.finish().into_iter().for_each(|part| ReplyPart::append(&mut parts, part));
        [ReplyPart::reasoning_of(&parts), ReplyPart::content_of(&parts)]
    }

    /// Seen: thought and answer came as one text, `t</think>391`, to every host.
    #[test]
    fn n10_thoughts_and_answer_come_apart_whatever_the_marks_are_typed_as() {
        let open = Continues::Conversation { open_reasoning: Some("</think>") };
        let closed = Continues::Conversation { open_reasoning: None };
        for kind in [USER_DEFINED, CONTROL] {
            let tokenizer = tokenizer(&[("<think>", kind), ("</think>", kind)]);
            let said = |continues, stop, said: &[&str]| parts(&tokenizer, continues, stop, said);
            assert_eq!(said(open, "", &["a", "</think>", "b"]), ["a", "b"]);
            assert_eq!(said(closed, "", &["<think>", "a", "</think>", "b"]), ["a", "b"]);
            assert_eq!(said(closed, "", &["b", "c"]), ["", "bc"]);
            assert_eq!(said(open, "", &["a", "<"]), ["a<", ""], "a thought that never ends");
            // What is held back for a stop text or a mark comes out where it belongs.
            assert_eq!(said(open, "bx", &["a", "</think>", "b"]), ["a", "b"]);
            assert_eq!(said(open, "c", &["a", "</think>", "b", "c", "d"]), ["a", "b"]);
            let plain = said(Continues::Plain, "", &["<think>", "a"]);
            let shown = if kind == CONTROL { "a" } else { "<think>a" };
            assert_eq!(plain, ["", shown], "a text that is continued is no conversation");
        }
        // A mark behind the answer's beginning is text, or nothing where it is control.
        let tokenizer = tokenizer(&[("</think>", CONTROL)]);
        assert_eq!(parts(&tokenizer, closed, "", &["a", "</think>", "b"]), ["", "ab"]);
    }

    #[test]
    fn calls_are_found_in_the_answer_and_not_in_thoughts_whatever_their_marks_are_typed_as() {
        use fanlight_messages::protocol::chat::{ChatTool, ChatTools};
        use fanlight_messages::reply::CallPart;
        use fanlight_models::text::calls::CallForm;
        let tool = ChatTool { name: "f".into(), description: String::new(), parameters: String::new() };
        for kind in [USER_DEFINED, CONTROL] {
            let tokenizer = tokenizer(&[
                ("<think>", kind),
                ("</think>", kind),
                ("<tool_call>", kind),
                ("</tool_call>", kind),
            ]);
            let said = |one_call: bool, pieces: &[&str]| {
                let tools = ChatTools { functions: vec![tool.clone()], one_call };
                let continues = Continues::Conversation { open_reasoning: None };
                let calls = CallSplitter::new(CallForm::Hermes, &tools);
                let mut text = ReplyText::new(tokenizer.clone(), continues, &[]).with_calls(Some(calls));
                let mut parts = Vec::new();
                for piece in pieces {
                    let single: Vec<String> = piece.chars().map(String::from).collect();
                    let whole = vec![(*piece).to_owned()];
                    for piece in if piece.starts_with('<') { whole } else { single } {
                        let mut ids = (0..tokenizer.vocabulary_len() as u32)
                            .filter(|id| tokenizer.token_bytes(*id) == piece.as_bytes());
                        text.push(ids.next().unwrap(), &mut parts);
                    }
                }
                let (calls, is_over) = (text.calls(), text.has_stopped());
                text.finish().into_iter().for_each(|part| ReplyPart::append(&mut parts, part));
                (parts, calls, is_over)
            };
            let call = "{\"name\":\"f\",\"arguments\":{\"a\":1}}";
            let wanted = [
                ReplyPart::Call(CallPart::Begin { name: "f".into() }),
                ReplyPart::Call(CallPart::Arguments("{\"a\":1}".into())),
                ReplyPart::Call(CallPart::End),
            ];
            let pieces = ["<think>", "t", "<tool_call>", "</think>", "<tool_call>", call, "</tool_call>"];
            let (parts, calls, is_over) = said(false, &pieces);
            assert!(
                matches!(&parts[0], ReplyPart::Reasoning(thought) if thought.starts_with('t')),
                "{parts:?}"
            );
            assert_eq!((&parts[1..], calls, is_over), (&wanted[..], 1, false));
            let (parts, calls, is_over) = said(true, &["<tool_call>", call, "</tool_call>", "x"]);
            assert_eq!((&parts[..], calls, is_over), (&wanted[..], 1, true));
        }
    }
}
