//! `{"name": "f", "arguments": {…}}`, read while it arrives.

use fanlight_messages::reply::{CallPart, ReplyPart};

use super::{Function, arguments};

/// What comes next in the object.
#[derive(Debug, Clone, PartialEq)]
enum At {
    Start,
    KeyOrEnd,
    Key { text: String, is_escaped: bool },
    Colon { key: String },
    Value { key: String },
    InValue { key: String, nesting: Nesting },
    CommaOrEnd,
    End,
}

/// Where in a value of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Nesting {
    depth: u32,
    in_string: bool,
    is_escaped: bool,
    /// A number or a word, which ends where something else begins.
    is_bare: bool,
}

/// Says whether the object can still be a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// More is to come.
    Open,
    /// It is complete.
    Complete,
    /// It is no call.
    NoCall,
}

/// Reads one object. What it was read from is kept until the name is known to be that of a function.
#[derive(Debug, Clone)]
pub(super) struct ObjectReader {
    at: At,
    /// The name's JSON, while it arrives.
    name: String,
    is_named: bool,
    /// Arguments that came before the name.
    early: String,
    has_arguments: bool,
}

impl Default for ObjectReader {
    fn default() -> Self {
        Self {
            at: At::Start,
            name: String::new(),
            is_named: false,
            early: String::new(),
            has_arguments: false,
        }
    }
}

impl ObjectReader {
    /// Whether the name is known, from when on the stretch is a call whatever follows.
    pub fn is_named(&self) -> bool {
        self.is_named
    }

    /// Reads a character.
    pub fn push(&mut self, c: char, functions: &[Function], parts: &mut Vec<ReplyPart>) -> Verdict {
        let at = std::mem::replace(&mut self.at, At::End);
        let next = match at {
            At::InValue { key, nesting } => return self.value(c, key, nesting, functions, parts),
            At::Key { mut text, is_escaped } => match c {
                '"' if !is_escaped => Some(At::Colon { key: text }),
                _ => {
                    text.push(c);
                    Some(At::Key { text, is_escaped: c == '\\' && !is_escaped })
                }
            },
            blank if c.is_whitespace() => Some(blank),
            At::Start => (c == '{').then_some(At::KeyOrEnd),
            At::KeyOrEnd => match c {
                '"' => Some(At::Key { text: String::new(), is_escaped: false }),
                _ => None,
            },
            At::Colon { key } => (c == ':').then_some(At::Value { key }),
            At::Value { key } => return self.value(c, key, Nesting::default(), functions, parts),
            At::CommaOrEnd => match c {
                ',' => Some(At::KeyOrEnd),
                '}' => return self.end(parts),
                _ => None,
            },
            At::End => None,
        };
        match next {
            Some(next) => {
                self.at = next;
                Verdict::Open
            }
            // Arguments that are told cannot be taken back.
            None if self.is_named => self.end(parts),
            None => Verdict::NoCall,
        }
    }

    fn end(&mut self, parts: &mut Vec<ReplyPart>) -> Verdict {
        self.at = At::End;
        if !self.is_named {
            return Verdict::NoCall;
        }
        if !self.has_arguments {
            ReplyPart::append(parts, arguments("{}"));
        }
        parts.push(ReplyPart::Call(CallPart::End));
        Verdict::Complete
    }

    /// A character of a value, or the first behind one that is bare.
    fn value(
        &mut self,
        c: char,
        key: String,
        mut nesting: Nesting,
        functions: &[Function],
        parts: &mut Vec<ReplyPart>,
    ) -> Verdict {
        if nesting.is_bare && (c.is_whitespace() || matches!(c, ',' | '}' | ']')) {
            self.at = At::CommaOrEnd;
            return self.push(c, functions, parts);
        }
        let is_over = nesting.take(c);
        self.take(&key, c, parts);
        if !is_over {
            self.at = At::InValue { key, nesting };
            return Verdict::Open;
        }
        self.at = At::CommaOrEnd;
        if key == "name" && !self.is_named {
            return self.named(functions, parts);
        }
        Verdict::Open
    }

    fn take(&mut self, key: &str, c: char, parts: &mut Vec<ReplyPart>) {
        match key {
            "name" if !self.is_named => self.name.push(c),
            "arguments" | "parameters" if self.is_named => {
                self.has_arguments = true;
                ReplyPart::append(parts, arguments(c));
            }
            "arguments" | "parameters" => self.early.push(c),
            _ => {}
        }
    }

    fn named(&mut self, functions: &[Function], parts: &mut Vec<ReplyPart>) -> Verdict {
        let name: Option<String> = serde_json::from_str(&self.name).ok();
        let Some(function) = functions.iter().find(|function| Some(&function.name) == name.as_ref()) else {
            return Verdict::NoCall;
        };
        self.is_named = true;
        parts.push(ReplyPart::Call(CallPart::Begin { name: function.name.clone() }));
        if !self.early.is_empty() {
            self.has_arguments = true;
            ReplyPart::append(parts, arguments(std::mem::take(&mut self.early)));
        }
        Verdict::Open
    }
}

impl Nesting {
    /// Takes a character of a value; true when it is the last one.
    fn take(&mut self, c: char) -> bool {
        if self.in_string {
            let closes = c == '"' && !self.is_escaped;
            self.is_escaped = c == '\\' && !self.is_escaped;
            self.in_string = !closes;
            return closes && self.depth == 0;
        }
        match c {
            '"' => self.in_string = true,
            '{' | '[' => self.depth += 1,
            '}' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ if self.depth == 0 => self.is_bare = true,
            _ => {}
        }
        false
    }
}
