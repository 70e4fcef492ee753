//! Chat templates: messages in, prompt text and ids out.
//!
//! The template is the one in the file, rendered as the reference renderer does. Control ids come only from
//! the template's own text, see `guard`. A template that refuses the messages gets them again with
//! neighbours of one role merged, and then with system messages moved to the user; if it refuses those too,
//! its own words are the error. What a template leaves out is found when the model is loaded, see `probe`.

mod clock;
mod environment;
mod error;
mod guard;
mod json;
mod message;
mod probe;

pub use clock::LocalTime;
pub use environment::{PROMPT_BYTES_MAX, TEMPLATE_BYTES_MAX};
pub use error::TemplateError;
pub use message::{ChatMessage, Role, ToolCall};

use super::control;
use super::reasoning;
use super::tokenizer::{TokenId, Tokenizer};
use crate::gguf::Metadata;
use environment::Engine;
use fanlight_messages::reply::Think;
use fanlight_messages::warning::Warning;
use guard::{Ends, Guard};
use message::{Arguments, Content, Form};
use minijinja::value::Serde;
use serde_json::Value;

const KEY: &str = "tokenizer.chat_template";

/// How to render.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatOptions {
    /// Whether the prompt ends where the model's next message begins.
    pub add_generation_prompt: bool,
    /// Whether the model is asked to think before it answers, where its template has that choice.
    pub think: Think,
    /// Function descriptions: a JSON array.
    pub tools: Option<Value>,
    /// The caller's time, for templates that print a date.
    pub now: LocalTime,
}

/// A prompt as text, with what is needed to turn it into ids safely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedPrompt {
    text: String,
    guards: Vec<usize>,
    warnings: Vec<Warning>,
    open_reasoning: Option<&'static str>,
}

impl RenderedPrompt {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What was changed so that the template accepts the messages. Shown to the user.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// What ends the reasoning that this prompt has begun, if it ends inside one.
    pub fn open_reasoning(&self) -> Option<&'static str> {
        self.open_reasoning
    }
}

/// The chat template of a file.
#[derive(Debug)]
pub struct ChatTemplate {
    source: String,
    engine: Engine,
    guard: Guard,
    bos_text: String,
    eos_text: String,
    warnings: Vec<Warning>,
    content: Content,
    /// It prints no system message, so the user says its text.
    loses_system: bool,
}

impl ChatTemplate {
    /// Reads and parses `tokenizer.chat_template`.
    ///
    /// Fails when it is missing, does not parse, or names control texts of which the vocabulary has none.
    pub fn from_metadata(metadata: &Metadata, tokenizer: &Tokenizer) -> Result<Self, TemplateError> {
        let bytes = metadata.get_bytes(KEY)?.ok_or(TemplateError::Missing)?;
        let source = std::str::from_utf8(bytes).map_err(|_| TemplateError::NotUtf8)?.to_owned();
        let engine = Engine::new(&source)?;
        let warnings = missing_control_texts(&source, tokenizer)?.into_iter().collect();
        let (bos_text, eos_text) = tokenizer.bos_and_eos_texts();
        let guard = Guard::new(tokenizer, &source);
        let (content, loses_system) = (Content::default(), false);
        Ok(Self { source, engine, guard, bos_text, eos_text, warnings, content, loses_system })
    }

    /// Renders a conversation with known texts, and learns from the outcome in which form this template wants
    /// messages, and what it leaves out.
    ///
    /// # Errors
    /// [`TemplateError`] when no form makes it print what the user says.
    pub fn probe(&mut self) -> Result<(), TemplateError> {
        let found = probe::probe(self)?;
        self.content = found.content;
        self.loses_system = found.loses_system;
        self.warnings.extend(found.warnings);
        Ok(())
    }

    /// What a person should know about the template.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Renders a conversation.
    ///
    /// Where supplied text contains control text that the template itself looks for (reasoning marks in an
    /// earlier answer), the template does not find it; reasoning is then handed to it as `reasoning_content`.
    pub fn render(
        &self,
        messages: &[ChatMessage],
        options: &ChatOptions,
    ) -> Result<RenderedPrompt, TemplateError> {
        if messages.is_empty() {
            return Err(TemplateError::NoMessages);
        }
        let tools = options.tools.clone().unwrap_or(Value::Null);
        if !tools.is_null() && !tools.is_array() {
            return Err(TemplateError::ToolsNotArray);
        }
        let accepted = self.first_accepted(messages, &tools, options)?;
        let (text, guards) = self.render_marked(&accepted, &tools, options)?;
        let opens = || reasoning::opened_by(&text, |range| guard::is_guarded(&guards, &text, &range));
        let open_reasoning = options.add_generation_prompt.then(opens).flatten();
        Ok(RenderedPrompt { text, guards, warnings: accepted.warnings, open_reasoning })
    }

    /// Ids of a prompt that this template rendered: control ids only where its own text has them, and exactly
    /// one BOS where the model wants one, whether or not the template prints it.
    pub fn prompt_ids(&self, tokenizer: &Tokenizer, prompt: &RenderedPrompt) -> Vec<TokenId> {
        let ids = tokenizer.encode_where(&prompt.text, |id, range| {
            !self.guard.protects(id) || !guard::is_guarded(&prompt.guards, &prompt.text, &range)
        });
        tokenizer.with_one_bos(ids)
    }

    fn first_accepted(
        &self,
        messages: &[ChatMessage],
        tools: &Value,
        options: &ChatOptions,
    ) -> Result<Accepted, TemplateError> {
        let mut refusal = None;
        for (messages, warnings) in message::variants(messages, self.loses_system) {
            match self.render_either_form(&messages, tools, options) {
                Ok((text, form)) => return Ok(Accepted { messages, form, warnings, text }),
                Err(error @ TemplateError::Refused { .. }) => refusal = refusal.or(Some(error)),
                Err(error) => return Err(refusal.unwrap_or(error)),
            }
        }
        Err(refusal.unwrap_or(TemplateError::NoMessages))
    }

    /// Renders with arguments of tool calls as objects and, if the template cannot take those, as text.
    fn render_either_form(
        &self,
        messages: &[ChatMessage],
        tools: &Value,
        options: &ChatOptions,
    ) -> Result<(String, Form), TemplateError> {
        let render = |arguments| {
            let form = Form { content: self.content, arguments };
            let values = message::to_json(messages, form, &message::unmarked);
            self.render_values(&values, tools, options).map(|text| (text, form))
        };
        match render(Arguments::Object) {
            Err(error @ TemplateError::Failed { .. })
                if messages.iter().any(|message| !message.tool_calls.is_empty()) =>
            {
                render(Arguments::Text).map_err(|_| error)
            }
            outcome => outcome,
        }
    }

    /// The text with the guards of what is supplied: with as many marks as leave the text as it is, and with
    /// the fewest where all change it.
    fn render_marked(
        &self,
        accepted: &Accepted,
        tools: &Value,
        options: &ChatOptions,
    ) -> Result<(String, Vec<usize>), TemplateError> {
        let Accepted { messages, form, text, .. } = accepted;
        let plain = message::to_json(messages, *form, &message::unmarked);
        let sentinel = guard::free_sentinel(&self.source, &[&plain, tools])?;
        let render = |messages: &[ChatMessage], ends: Ends| {
            let mark = |text: &str, ends: bool| self.guard.mark(text, sentinel, ends);
            let of_message = |text: &str, is_key: bool| mark(text, !is_key && ends != Ends::Nowhere);
            let of_tool = |text: &str, is_key: bool| mark(text, !is_key && ends == Ends::Everywhere);
            let messages = message::to_json(messages, *form, &of_message);
            let tools = message::mark_json(tools, &of_tool);
            self.render_values(&messages, &tools, options).map(|marked| guard::unmark(&marked, sentinel))
        };
        for ends in [Ends::Everywhere, Ends::Messages] {
            if let Ok(unmarked) = render(messages, ends)
                && unmarked.0 == *text
            {
                return Ok(unmarked);
            }
        }
        let unmarked = render(messages, Ends::Nowhere)?;
        // Where marks only change what the template counts or compares, and no piece is forged without them,
        // they are not needed.
        if self.guard.recognised(text, &[]) == self.guard.recognised(&unmarked.0, &unmarked.1) {
            return Ok((text.clone(), Vec::new()));
        }
        let mut lifted = messages.clone();
        if unmarked.0 != *text && message::lift_reasoning(&mut lifted) {
            return render(&lifted, Ends::Nowhere);
        }
        Ok(unmarked)
    }

    fn render_values(
        &self,
        messages: &Value,
        tools: &Value,
        options: &ChatOptions,
    ) -> Result<String, TemplateError> {
        let now = options.now;
        // Undefined is what templates see when nothing is said.
        let think = match options.think {
            Think::Off => minijinja::Value::from(false),
            Think::On => minijinja::Value::from(true),
            Think::Template => minijinja::Value::UNDEFINED,
        };
        let variables = minijinja::context! {
            messages => minijinja::Value::from(Serde(messages)),
            tools => minijinja::Value::from(Serde(tools)),
            documents => (),
            add_generation_prompt => options.add_generation_prompt,
            enable_thinking => &think,
            thinking => &think,
            bos_token => &self.bos_text,
            eos_token => &self.eos_text,
            strftime_now => minijinja::Value::from_function(move |format: String| now.format(&format)),
        };
        self.engine.render(variables, &[messages, tools])
    }
}

/// The conversation as the template took it.
struct Accepted {
    messages: Vec<ChatMessage>,
    form: Form,
    warnings: Vec<Warning>,
    text: String,
}

/// A warning about the control texts in a template that are no special pieces. Some missing ones are normal,
/// since one template serves several vocabularies; when all are missing it belongs to another model.
fn missing_control_texts(source: &str, tokenizer: &Tokenizer) -> Result<Option<Warning>, TemplateError> {
    let literals = control::literals(source);
    let missing: Vec<&str> = literals.iter().copied().filter(|text| !tokenizer.has_special(text)).collect();
    let names = missing.join(", ");
    match missing.len() {
        0 => Ok(None),
        count if count == literals.len() => Err(TemplateError::Foreign { texts: names }),
        _ => Ok(Some(Warning::ControlTextsMissing { names })),
    }
}
