//! Chat templates: messages in, prompt text and ids out.
//!
//! The template is the one in the file, rendered as the reference renderer does. Control ids come only from
//! the template's own text, see `guard`. A template that refuses the messages gets them again with
//! neighbours of one role merged, and then with the system text moved to the first user message; if it
//! refuses those too, its own words are the error.

mod clock;
mod environment;
mod error;
mod generic;
mod guard;
mod json;
mod literals;
mod message;
mod turns;

pub use clock::LocalTime;
pub use environment::{PROMPT_BYTES_MAX, TEMPLATE_BYTES_MAX};
pub use error::TemplateError;
pub use message::{Adjustment, ChatMessage, Role, ToolCall};
pub use turns::tools_json;

use super::calls::CallForm;
use super::reasoning;
use super::tokenizer::{TokenId, Tokenizer};
use crate::gguf::Metadata;
use environment::Engine;
use fanlight_messages::reply::Think;
use guard::Guard;
use message::Arguments;
use minijinja::value::Serde;
use serde_json::{Value, json};

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
    adjustments: Vec<Adjustment>,
    open_reasoning: Option<&'static str>,
    call_form: CallForm,
}

impl RenderedPrompt {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What was changed so that the template accepts the messages. Shown to the user.
    pub fn adjustments(&self) -> &[Adjustment] {
        &self.adjustments
    }

    /// What ends the reasoning that this prompt has begun, if it ends inside one.
    pub fn open_reasoning(&self) -> Option<&'static str> {
        self.open_reasoning
    }

    /// How the model was told to write calls, if it was offered functions.
    pub fn call_form(&self) -> CallForm {
        self.call_form
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
    missing_literals: Vec<String>,
    /// Whether tools change what it renders.
    knows_tools: bool,
}

impl ChatTemplate {
    /// Reads and parses `tokenizer.chat_template`.
    ///
    /// Fails when it is missing, does not parse, or names control texts of which the vocabulary has none.
    pub fn from_metadata(metadata: &Metadata, tokenizer: &Tokenizer) -> Result<Self, TemplateError> {
        let bytes = metadata.get_bytes(KEY)?.ok_or(TemplateError::Missing)?;
        let source = std::str::from_utf8(bytes).map_err(|_| TemplateError::NotUtf8)?;
        let engine = Engine::new(source)?;
        let missing_literals = literals::missing(source, tokenizer)?;
        let (bos_text, eos_text) = tokenizer.bos_and_eos_texts();
        let guard = Guard::new(tokenizer, source);
        let source = source.to_owned();
        let knows_tools = false;
        let template = Self { source, engine, guard, bos_text, eos_text, missing_literals, knows_tools };
        Ok(Self { knows_tools: template.shows_tools(), ..template })
    }

    /// Whether a tool can be seen in what is rendered. A template that fails on one knows none.
    fn shows_tools(&self) -> bool {
        let now = LocalTime { year: 2000, month: 1, day: 1, hour: 0, minute: 0, second: 0 };
        let options = ChatOptions { add_generation_prompt: true, think: Think::Off, tools: None, now };
        let messages = message::to_json(&[ChatMessage::new(Role::User, "x")], Arguments::Object);
        let function = json!({ "name": "f", "description": "d", "parameters": { "type": "object" } });
        let tools = json!([{ "type": "function", "function": function }]);
        let render = |tools: &Value| self.render_values(&messages, tools, &options);
        render(&tools).is_ok_and(|text| render(&Value::Null).is_ok_and(|without| without != text))
    }

    /// Control texts in the template that are no pieces of the vocabulary; they reach the model as ordinary
    /// text.
    pub fn missing_literals(&self) -> &[String] {
        &self.missing_literals
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
        let has_tools = !tools.is_null() || messages.iter().any(generic::needs_tools);
        let plain = (has_tools && !self.knows_tools).then(|| generic::without_tools(messages, &tools));
        let tools = if plain.is_some() { Value::Null } else { tools };
        let accepted = self.first_accepted(plain.as_deref().unwrap_or(messages), &tools, options)?;
        let Accepted { mut messages, arguments, adjustments, text } = accepted;
        let values = message::to_json(&messages, arguments);
        let (text, guards) = if self.guard.is_needed(&[&values, &tools]) {
            let (marked, guards) = self.render_marked(&values, &tools, options)?;
            if marked != text && message::lift_reasoning(&mut messages) {
                self.render_marked(&message::to_json(&messages, arguments), &tools, options)?
            } else {
                (marked, guards)
            }
        } else {
            (text, Vec::new())
        };
        let open_reasoning = options.add_generation_prompt.then(|| reasoning::opened_by(&text)).flatten();
        let call_form = if self.knows_tools { CallForm::of_template(&self.source) } else { CallForm::Hermes };
        Ok(RenderedPrompt { text, guards, adjustments, open_reasoning, call_form })
    }

    /// Ids of a prompt that this template rendered: control ids only where its own text has them, and exactly
    /// one BOS where the model wants one, whether or not the template prints it.
    pub fn prompt_ids(&self, tokenizer: &Tokenizer, prompt: &RenderedPrompt) -> Vec<TokenId> {
        let ids = tokenizer.encode_where(&prompt.text, |id, range| {
            !self.guard.protects(id) || !guard::is_guarded(&prompt.guards, &range)
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
        for (messages, adjustments) in message::variants(messages) {
            let outcome = self.render_either_form(&messages, tools, options);
            match outcome {
                Ok((text, arguments)) => return Ok(Accepted { messages, arguments, adjustments, text }),
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
    ) -> Result<(String, Arguments), TemplateError> {
        let render = |arguments| self.render_values(&message::to_json(messages, arguments), tools, options);
        match render(Arguments::Object) {
            Ok(text) => Ok((text, Arguments::Object)),
            Err(error @ TemplateError::Failed { .. })
                if messages.iter().any(|message| !message.tool_calls.is_empty()) =>
            {
                render(Arguments::Text).map(|text| (text, Arguments::Text)).map_err(|_| error)
            }
            Err(error) => Err(error),
        }
    }

    fn render_marked(
        &self,
        messages: &Value,
        tools: &Value,
        options: &ChatOptions,
    ) -> Result<(String, Vec<usize>), TemplateError> {
        let sentinel = guard::free_sentinel(&self.source, &[messages, tools])?;
        let messages = self.guard.mark(messages, sentinel);
        let tools = self.guard.mark(tools, sentinel);
        let marked = self.render_values(&messages, &tools, options)?;
        Ok(guard::unmark(&marked, sentinel))
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
    arguments: Arguments,
    adjustments: Vec<Adjustment>,
    text: String,
}
