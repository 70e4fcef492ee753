//! `tojson` as Python's `json.dumps(ensure_ascii=False)` writes it: insertion order, `", "` and `": "`, no
//! HTML escapes.

use super::guard::may_be_sentinel;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use std::fmt::Write;

/// Deepest nesting written: far beyond any tool description, and shallow enough for any stack.
const DEPTH_MAX: usize = 128;

/// Bytes that cost one unit of fuel, the engine's own rate for serialised output.
const BYTES_PER_FUEL: usize = 4;

/// The filter: `indent` in spaces, `ensure_ascii`, `sort_keys` and `separators` as in Python.
pub(super) fn tojson(
    state: &mut State,
    value: &Value,
    indent: Option<&Value>,
    options: Kwargs,
) -> Result<Value, Error> {
    let indent = match (indent, options.get::<Option<Value>>("indent")?) {
        (Some(given), _) if !given.is_none() => Some(given.clone()),
        (_, given) => given.filter(|value| !value.is_none()),
    };
    let indent = indent.map(usize::try_from).transpose()?;
    let separators = match options.get::<Option<Vec<String>>>("separators")? {
        Some(pair) => <[String; 2]>::try_from(pair)
            .map_err(|_| Error::new(ErrorKind::InvalidOperation, "separators have to be two strings"))?,
        None if indent.is_some() => [",".to_owned(), ": ".to_owned()],
        None => [", ".to_owned(), ": ".to_owned()],
    };
    let ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let sorted = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let mut writer = Writer { text: String::new(), charged: 0, state, indent, separators, ascii, sorted };
    writer.value(value, 0)?;
    Ok(Value::from(writer.text))
}

struct Writer<'a, 'b, 'c> {
    text: String,
    charged: usize,
    state: &'a mut State<'b, 'c>,
    indent: Option<usize>,
    separators: [String; 2],
    ascii: bool,
    sorted: bool,
}

impl Writer<'_, '_, '_> {
    /// Charges for what was written since the last call, so that a deep or wide value cannot run away.
    fn charge(&mut self) -> Result<(), Error> {
        let steps = (self.text.len() - self.charged) / BYTES_PER_FUEL;
        if steps > 0 {
            self.charged += steps * BYTES_PER_FUEL;
            self.state.consume_fuel(steps as u64)?;
        }
        Ok(())
    }

    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::new(ErrorKind::InvalidOperation, "value is nested too deeply for JSON"));
        }
        match value.kind() {
            ValueKind::None => self.text.push_str("null"),
            ValueKind::Bool => self.text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.number(value),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<(Option<String>, Value)> = value.try_iter()?.map(|v| (None, v)).collect();
                self.container(['[', ']'], items, depth)?;
            }
            ValueKind::Map => {
                let mut items = Vec::new();
                for key in value.try_iter()? {
                    items.push((Some(key_text(&key)), value.get_item(&key)?));
                }
                if self.sorted {
                    items.sort_by(|left, right| left.0.cmp(&right.0));
                }
                self.container(['{', '}'], items, depth)?;
            }
            kind => {
                let reason = format!("a value of type {kind} cannot be written as JSON");
                return Err(Error::new(ErrorKind::InvalidOperation, reason));
            }
        }
        self.charge()
    }

    fn container(
        &mut self,
        brackets: [char; 2],
        items: Vec<(Option<String>, Value)>,
        depth: usize,
    ) -> Result<(), Error> {
        self.text.push(brackets[0]);
        let is_empty = items.is_empty();
        for (index, (key, item)) in items.into_iter().enumerate() {
            if index > 0 {
                self.text.push_str(&self.separators[0]);
            }
            self.line_break(depth + 1);
            if let Some(key) = key {
                self.string(&key);
                self.text.push_str(&self.separators[1]);
            }
            self.value(&item, depth + 1)?;
        }
        if !is_empty {
            self.line_break(depth);
        }
        self.text.push(brackets[1]);
        Ok(())
    }

    fn line_break(&mut self, depth: usize) {
        if let Some(indent) = self.indent {
            self.text.push('\n');
            // Indents beyond a screen's width say nothing; the bound keeps the product small.
            self.text.extend(std::iter::repeat_n(' ', indent.min(80) * depth));
        }
    }

    fn number(&mut self, value: &Value) {
        match f64::try_from(value.clone()) {
            Ok(float) if !value.is_integer() => self.text.push_str(&python_float(float)),
            _ => self.text.push_str(&value.to_string()),
        }
    }

    fn string(&mut self, text: &str) {
        self.text.push('"');
        for character in text.chars() {
            match character {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{C}' => self.text.push_str("\\f"),
                // The mark of supplied text has to survive, or it could not be taken out again.
                c if u32::from(c) < 0x20 || (self.ascii && !c.is_ascii() && !may_be_sentinel(c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        // Writing to a string cannot fail.
                        let _ = write!(self.text, "\\u{unit:04x}");
                    }
                }
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }
}

/// A key as JSON writes it: Python turns the few other key types into text.
fn key_text(key: &Value) -> String {
    match key.kind() {
        ValueKind::None => "null".to_owned(),
        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_owned(),
        _ => key.to_string(),
    }
}

/// Shortest digits that read back, in Python's choice between plain and exponent form.
fn python_float(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned();
    }
    let scientific = format!("{value:e}");
    let exponent: i32 = scientific.rsplit('e').next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
    if value == 0.0 || (-4..16).contains(&exponent) {
        return format!("{value:?}");
    }
    let mantissa = scientific.split('e').next().unwrap_or_default();
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::python_float;

    #[test]
    fn floats_are_written_as_python_does() {
        // python3 -c 'import json; print(json.dumps(X))'
        for (value, wanted) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e100, "1.25e+100"),
        ] {
            assert_eq!(python_float(value), wanted);
        }
    }
}
