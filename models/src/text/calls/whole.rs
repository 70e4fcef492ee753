//! An answer that is one call or none: `{"name": …, "parameters": {…}}` from its first character on.

use fanlight_messages::reply::ReplyPart;

use super::Function;
use super::object::{ObjectReader, Verdict};

/// Reads an answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Whole {
    reader: ObjectReader,
    /// What was read while it may be a call.
    raw: String,
    is_content: bool,
    has_called: bool,
}

impl Whole {
    pub fn push(&mut self, text: &str, functions: &[Function], parts: &mut Vec<ReplyPart>) {
        for c in text.chars() {
            if self.is_content {
                ReplyPart::append(parts, ReplyPart::Content(c.into()));
                continue;
            }
            if self.has_called {
                // A second call is not of this form; what models write behind the first means nothing.
                return;
            }
            self.raw.push(c);
            match self.reader.push(c, functions, parts) {
                Verdict::Open => {}
                Verdict::Complete => self.has_called = true,
                Verdict::NoCall => {
                    self.is_content = true;
                    ReplyPart::append(parts, ReplyPart::Content(std::mem::take(&mut self.raw)));
                }
            }
        }
    }

    /// What is held back.
    pub fn finish(self) -> String {
        if self.reader.is_named() { String::new() } else { self.raw }
    }
}
