//! `<function=f><parameter=p>…</parameter></function>`, read while it arrives and told as JSON.

use fanlight_messages::reply::{CallPart, ReplyPart};
use serde_json::Value;

use super::object::Verdict;
use super::{Function, arguments};

const FUNCTION: &str = "<function=";
const FUNCTION_END: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const PARAMETER_END: &str = "</parameter>";
/// What follows the text of a parameter; only together do they end it, so that a mark within is text.
const BEHIND: [&str; 2] = [PARAMETER, FUNCTION_END];

/// Where in the call.
#[derive(Debug, Clone, Default)]
enum At {
    #[default]
    Function,
    Name(String),
    Parameters,
    Key(String),
    /// In a parameter's text, as far as it goes.
    Text {
        key: String,
        held: String,
    },
}

/// Reads one call.
#[derive(Debug, Clone, Default)]
pub(super) struct ParameterReader {
    at: At,
    held: String,
    function: Option<Function>,
    parameters: u32,
}

impl ParameterReader {
    /// Whether the name is known, from when on the stretch is a call whatever follows.
    pub fn is_named(&self) -> bool {
        self.function.is_some()
    }

    /// Reads a character.
    pub fn push(&mut self, c: char, functions: &[Function], parts: &mut Vec<ReplyPart>) -> Verdict {
        match &mut self.at {
            At::Function => {
                self.held.push(c);
                let held = self.held.trim_start();
                if held == FUNCTION {
                    self.held.clear();
                    self.at = At::Name(String::new());
                } else if !FUNCTION.starts_with(held) {
                    return Verdict::NoCall;
                }
            }
            At::Name(name) if c == '>' => {
                let function = functions.iter().find(|function| function.name == name.trim());
                let Some(function) = function else { return Verdict::NoCall };
                parts.push(ReplyPart::Call(CallPart::Begin { name: function.name.clone() }));
                ReplyPart::append(parts, arguments("{"));
                self.function = Some(function.clone());
                self.at = At::Parameters;
            }
            At::Name(name) => name.push(c),
            At::Parameters => return self.between(c, parts),
            At::Key(key) if c == '>' => {
                let key = std::mem::take(key);
                self.at = At::Text { key, held: String::new() };
            }
            At::Key(key) => key.push(c),
            At::Text { held, .. } => {
                held.push(c);
                return self.text(parts);
            }
        }
        Verdict::Open
    }

    /// A character between parameters.
    fn between(&mut self, c: char, parts: &mut Vec<ReplyPart>) -> Verdict {
        self.held.push(c);
        let held = self.held.trim_start();
        if held == PARAMETER {
            self.held.clear();
            self.at = At::Key(String::new());
        } else if held == FUNCTION_END || !BEHIND.iter().any(|mark| mark.starts_with(held)) {
            return end(parts);
        }
        Verdict::Open
    }

    /// Looks whether the text of a parameter is over: its end, and behind it another mark.
    fn text(&mut self, parts: &mut Vec<ReplyPart>) -> Verdict {
        let At::Text { key, held } = &mut self.at else { return Verdict::Open };
        let ended = BEHIND.into_iter().find_map(|mark| {
            let text = held.strip_suffix(mark)?.trim_end().strip_suffix(PARAMETER_END)?;
            Some((text, mark))
        });
        let Some((text, mark)) = ended else { return Verdict::Open };
        let text = text.strip_prefix('\n').unwrap_or(text);
        let text = text.strip_suffix('\n').unwrap_or(text);
        let schema = self.function.as_ref().map_or(&Value::Null, |function| &function.schema);
        let value = value_of(text, &schema["properties"][key.as_str()]);
        let comma = if self.parameters == 0 { "" } else { "," };
        let json = format!("{comma}{}:{value}", Value::String(std::mem::take(key)));
        self.parameters += 1;
        ReplyPart::append(parts, arguments(json));
        self.at = At::Key(String::new());
        if mark == PARAMETER { Verdict::Open } else { end(parts) }
    }
}

fn end(parts: &mut Vec<ReplyPart>) -> Verdict {
    ReplyPart::append(parts, arguments("}"));
    parts.push(ReplyPart::Call(CallPart::End));
    Verdict::Complete
}

/// A parameter's text as JSON, by its schema: a text where one is wanted or nothing else fits.
fn value_of(text: &str, schema: &Value) -> Value {
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => kind.as_str().into_iter().collect::<Vec<_>>(),
    };
    if kinds.contains(&"null") && matches!(text.trim(), "null" | "None") {
        return Value::Null;
    }
    if kinds.is_empty() || kinds.contains(&"string") {
        return Value::String(text.to_owned());
    }
    match text.trim() {
        "True" => Value::Bool(true),
        "False" => Value::Bool(false),
        json => serde_json::from_str(json).unwrap_or_else(|_| Value::String(text.to_owned())),
    }
}
