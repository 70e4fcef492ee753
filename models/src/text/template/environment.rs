//! The template engine, set up as the reference renderer is, and bounded: templates are untrusted file
//! content.
//!
//! Work is bounded by what there is to render, so a template cannot build values nested deeper than the stack
//! takes to drop them, unless the conversation is long. One hole remains: the engine does not meter
//! comparisons, so a template that nests a list in itself many times and compares two such lists can still
//! take very long.

use super::error::TemplateError;
use super::json;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, Value};
use minijinja_contrib::pycompat;
use std::io;

/// Largest template: five times the largest published one.
pub const TEMPLATE_BYTES_MAX: usize = 128 << 10;
/// Longest prompt: four bytes for each of the characters that a message may have, and as much again for
/// scaffolding.
pub const PROMPT_BYTES_MAX: usize = 8 << 20;
/// Work of one rendering, in the engine's fuel: an instruction costs one, 64 bytes of text cost one.
/// Published templates need a few hundred before the first message.
const FUEL_BASE: u64 = 20_000;
/// Work per JSON value of messages and tools, of which published templates need about fifty.
const FUEL_PER_VALUE: u64 = 500;
/// Bytes of messages and tools that allow one more unit of work: enough to write each as JSON and copy it
/// often.
const BYTES_PER_FUEL: u64 = 2;
/// Bytes of a formatted width that cost one unit of work, the engine's own rate for bytes.
const BYTES_PER_FORMAT_FUEL: u64 = 64;
/// Most work of one rendering, which takes well under a second.
const FUEL_MAX: u64 = 2_000_000;
/// Deepest recursion of macros: published templates nest five, and the web's stack is small.
const RECURSION_MAX: usize = 50;
/// Name under which the engine knows the template.
const NAME: &str = "chat";

/// What `raise_exception` was called with.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// A parsed template.
#[derive(Debug)]
pub(super) struct Engine {
    environment: Environment<'static>,
}

impl Engine {
    /// Parses a template.
    pub fn new(source: &str) -> Result<Self, TemplateError> {
        if source.len() > TEMPLATE_BYTES_MAX {
            return Err(TemplateError::TooLarge { found: source.len(), limit: TEMPLATE_BYTES_MAX });
        }
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| syntax_error(&error))?);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_recursion_limit(RECURSION_MAX);
        environment.set_unknown_method_callback(python_method);
        environment.add_filter("tojson", json::tojson);
        environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, "raised").with_source(Raised(message)))
        });
        environment
            .add_template_owned(NAME, plain_statements(source))
            .map_err(|error| syntax_error(&error))?;
        Ok(Self { environment })
    }

    /// Renders with these variables, of which `supplied` come from the conversation.
    pub fn render(&self, variables: Value, supplied: &[&serde_json::Value]) -> Result<String, TemplateError> {
        // Settings belong to an environment; a clone shares the parsed template.
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(fuel_for(supplied)));
        let template = environment.get_template(NAME).map_err(|error| failure(&error))?;
        let mut output = BoundedOutput(Vec::new());
        let outcome = template.render_captured_to(variables, &mut output).map(drop);
        match outcome {
            Ok(()) => String::from_utf8(output.0).map_err(|_| TemplateError::NotUtf8),
            Err(error) => Err(failure(&error)),
        }
    }
}

/// What rendering these values may cost.
fn fuel_for(supplied: &[&serde_json::Value]) -> u64 {
    fn cost(value: &serde_json::Value) -> u64 {
        FUEL_PER_VALUE
            + match value {
                serde_json::Value::String(text) => text.len() as u64 / BYTES_PER_FUEL,
                serde_json::Value::Array(items) => items.iter().map(cost).sum(),
                serde_json::Value::Object(map) => map.values().map(cost).sum(),
                _ => 0,
            }
    }
    supplied.iter().map(|value| cost(value)).fold(FUEL_BASE, u64::saturating_add).min(FUEL_MAX)
}

/// Python's string and mapping methods.
fn python_method(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let text = value.as_str();
    match (text, method, args) {
        (Some(text), "removeprefix", [affix]) => {
            let affix = affix.as_str().unwrap_or_default();
            Ok(Value::from(text.strip_prefix(affix).unwrap_or(text)))
        }
        (Some(text), "removesuffix", [affix]) => {
            let affix = affix.as_str().unwrap_or_default();
            Ok(Value::from(text.strip_suffix(affix).unwrap_or(text)))
        }
        (Some(text), "format", _) => {
            // The engine meters what comes out; a width has to be paid for before it is filled.
            state.consume_fuel(numbers_in(text) / BYTES_PER_FORMAT_FUEL)?;
            pycompat::unknown_method_callback(state, value, method, args)
        }
        _ => pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// The sum of all numbers in a format, of which widths and precisions are some.
fn numbers_in(format: &str) -> u64 {
    let digits = format.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    // A number beyond 64 bits is one that no fuel pays for.
    digits.map(|digits| digits.parse().unwrap_or(u64::MAX)).fold(0, u64::saturating_add)
}

/// Turns the training marks `{% generation %}` and `{% endgeneration %}` into a condition that always holds,
/// which keeps their control of white space and the numbering of lines.
fn plain_statements(source: &str) -> String {
    let mut plain = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, tag)) = rest.find("{%").map(|at| rest.split_at(at)) {
        plain.push_str(before);
        let end = tag.find("%}").unwrap_or(tag.len());
        let (statement, behind) = tag.split_at(end);
        match statement[2..].trim_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '+')) {
            "generation" => plain.push_str(&statement.replace("generation", "if true")),
            "endgeneration" => plain.push_str(&statement.replace("endgeneration", "endif")),
            _ => plain.push_str(statement),
        }
        rest = behind;
    }
    plain.push_str(rest);
    plain
}

fn syntax_error(error: &Error) -> TemplateError {
    TemplateError::Syntax { line: error.line().unwrap_or(0), reason: reason(error) }
}

fn reason(error: &Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)
}

fn failure(error: &Error) -> TemplateError {
    let line = error.line().unwrap_or(0);
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(Raised(message)) = inner.downcast_ref() {
            return TemplateError::Refused { message: message.clone() };
        }
        if let Some(inner) = inner.downcast_ref::<Error>()
            && inner.kind() == ErrorKind::OutOfFuel
        {
            return TemplateError::TooMuchWork { line };
        }
        source = inner.source();
    }
    match error.kind() {
        ErrorKind::OutOfFuel => TemplateError::TooMuchWork { line },
        ErrorKind::WriteFailure => TemplateError::OutputTooLong { limit: PROMPT_BYTES_MAX },
        _ => TemplateError::Failed { line, reason: reason(error) },
    }
}

/// Takes output up to [`PROMPT_BYTES_MAX`].
struct BoundedOutput(Vec<u8>);

impl io::Write for BoundedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > PROMPT_BYTES_MAX {
            return Err(io::Error::other("prompt too long"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
