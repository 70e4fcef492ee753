//! The text of a reply, from ids to parts: whole characters, up to a stop text, thoughts apart from the
//! answer. Pure.

use std::rc::Rc;

use fanlight_messages::reply::ReplyPart;
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
}

impl ReplyText {
    /// A reply that ends before any of the `stop` texts.
    pub fn new(tokenizer: Rc<Tokenizer>, continues: Continues, stop: &[String]) -> Self {
        let detokenizer = Detokenizer::new(&tokenizer, TextPosition::Continuation);
        let splitter = match continues {
            Continues::Plain => None,
            Continues::Conversation { open_reasoning } => Some(ReasoningSplitter::new(open_reasoning)),
        };
        Self { tokenizer, detokenizer, stop: StopFilter::new(stop), splitter }
    }

    /// Adds the parts that this id completes to `parts`.
    pub fn push(&mut self, id: u32, parts: &mut Vec<ReplyPart>) {
        // A mark of reasoning that the vocabulary types as control has no text, and is needed all the same.
        let awaits_mark = self.splitter.as_ref().is_some_and(ReasoningSplitter::awaits_mark);
        let mark = self.tokenizer.control_mark(id).filter(|_| awaits_mark);
        let text = match mark {
            Some(mark) => mark.to_owned(),
            None => self.detokenizer.push(&self.tokenizer, id),
        };
        let text = self.stop.push(&text);
        split(self.splitter.as_mut(), text, parts);
    }

    /// True once a stop text has occurred.
    pub fn has_stopped(&self) -> bool {
        self.stop.has_stopped()
    }

    /// What was held back when the reply ended.
    pub fn finish(self) -> Vec<ReplyPart> {
        let Self { detokenizer, mut stop, mut splitter, .. } = self;
        let mut text = stop.push(&detokenizer.finish());
        text += &stop.finish();
        let mut parts = Vec::new();
        split(splitter.as_mut(), text, &mut parts);
        let held = splitter.and_then(ReasoningSplitter::finish);
        held.into_iter().for_each(|part| ReplyPart::append(&mut parts, part));
        parts
    }
}

fn split(splitter: Option<&mut ReasoningSplitter>, text: String, parts: &mut Vec<ReplyPart>) {
    if text.is_empty() {
        return;
    }
    match splitter {
        Some(splitter) => splitter.push(&text).into_iter().for_each(|part| ReplyPart::append(parts, part)),
        None => ReplyPart::append(parts, ReplyPart::Content(text)),
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
}
