//! Calls between `<tool_call>` and `</tool_call>`, content around them.

use fanlight_messages::reply::ReplyPart;

use super::object::{ObjectReader, Verdict};
use super::parameters::ParameterReader;
use super::{CallForm, Function};

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";

/// Where in the answer.
#[derive(Debug, Clone)]
enum At {
    /// In content, which `held` may be the beginning of a mark of.
    Content,
    /// Behind the opening mark: what was read from it on, and its reader.
    Call { raw: String, reader: CallReader },
    /// Behind a call: its closing mark may come.
    Behind,
}

#[derive(Debug, Clone)]
enum CallReader {
    Object(ObjectReader),
    Parameters(ParameterReader),
}

/// Reads an answer.
#[derive(Debug, Clone)]
pub(super) struct Marked {
    form: CallForm,
    at: At,
    held: String,
}

impl Marked {
    pub fn new(form: CallForm) -> Self {
        Self { form, at: At::Content, held: String::new() }
    }

    pub fn push(&mut self, text: &str, functions: &[Function], parts: &mut Vec<ReplyPart>) {
        for c in text.chars() {
            self.character(c, functions, parts);
        }
        self.release(parts);
    }

    /// What is held back.
    pub fn finish(self) -> String {
        match self.at {
            At::Call { raw, reader } if !reader.is_named() => raw,
            At::Call { .. } => String::new(),
            At::Content | At::Behind => self.held,
        }
    }

    fn character(&mut self, c: char, functions: &[Function], parts: &mut Vec<ReplyPart>) {
        match &mut self.at {
            At::Content => {
                self.held.push(c);
                if self.held.ends_with(OPEN) {
                    self.held.truncate(self.held.len() - OPEN.len());
                    self.emit(parts);
                    let reader = match self.form {
                        CallForm::QwenXml => CallReader::Parameters(ParameterReader::default()),
                        _ => CallReader::Object(ObjectReader::default()),
                    };
                    self.at = At::Call { raw: OPEN.into(), reader };
                }
            }
            At::Behind => {
                self.held.push(c);
                let held = self.held.trim_start();
                if held == CLOSE {
                    self.held.clear();
                    self.at = At::Content;
                } else if !CLOSE.starts_with(held) {
                    self.at = At::Content;
                    // Another call may begin without the closing mark.
                    for c in std::mem::take(&mut self.held).chars() {
                        self.character(c, functions, parts);
                    }
                }
            }
            At::Call { raw, reader } => {
                raw.push(c);
                let verdict = match reader {
                    CallReader::Object(reader) => reader.push(c, functions, parts),
                    CallReader::Parameters(reader) => reader.push(c, functions, parts),
                };
                match verdict {
                    Verdict::Open => {}
                    Verdict::Complete => self.at = At::Behind,
                    Verdict::NoCall => {
                        // It is content after all; a mark within it begins nothing.
                        let raw = std::mem::take(raw);
                        ReplyPart::append(parts, ReplyPart::Content(raw));
                        self.at = At::Content;
                    }
                }
            }
        }
    }

    /// Tells the content before a call, but for white space next to it.
    fn emit(&mut self, parts: &mut Vec<ReplyPart>) {
        let text = std::mem::take(&mut self.held);
        let text = text.trim_end();
        if !text.is_empty() {
            ReplyPart::append(parts, ReplyPart::Content(text.to_owned()));
        }
    }

    /// Tells what cannot be the beginning of a mark. White space waits for what follows it: before a call it
    /// belongs to neither.
    fn release(&mut self, parts: &mut Vec<ReplyPart>) {
        if !matches!(self.at, At::Content) {
            return;
        }
        let mark = (1..OPEN.len()).rev().find(|&len| self.held.ends_with(&OPEN[..len])).unwrap_or(0);
        let certain = self.held[..self.held.len() - mark].trim_end().len();
        if certain > 0 {
            let rest = self.held.split_off(certain);
            let text = std::mem::replace(&mut self.held, rest);
            ReplyPart::append(parts, ReplyPart::Content(text));
        }
    }
}

impl CallReader {
    fn is_named(&self) -> bool {
        match self {
            Self::Object(reader) => reader.is_named(),
            Self::Parameters(reader) => reader.is_named(),
        }
    }
}
