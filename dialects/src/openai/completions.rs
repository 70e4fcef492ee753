//! `POST /v1/completions`: text that goes on.

use serde_json::{Value, json};

use super::chat::sampling;
use super::{finish_reason, usage_json};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json;
use crate::normal::{NormalRequest, PromptForm, REPLIES_MAX, stops};
use crate::reply::*;

/// Tokens of a reply where nothing is said, as in the interface that this follows.
const LIMIT_DEFAULT: u32 = 16;
/// Ids of a prompt: more than any context holds, so that the engine can name both numbers.
const IDS_MAX: usize = 1 << 20;

/// Reads a request.
///
/// # Errors
/// [`ApiError`] names the first field that cannot be served.
pub fn read(body: &[u8]) -> Result<(NormalRequest, Box<dyn ReplyForm>), ApiError> {
    let body = json::parse(body)?;
    let fields = Fields::of(&body)?;
    fields.refuse("logprobs", "leave it out")?;
    fields.refuse("suffix", "the text goes on at its end only")?;
    let prompts = prompts(&fields)?;
    let replies = fields.count("n", 1, REPLIES_MAX)?.unwrap_or(1);
    if fields.count("best_of", 1, REPLIES_MAX)?.is_some_and(|best| best != replies) {
        return Err(fields.unsupported("best_of", "all replies are returned: use n"));
    }
    let echo = fields.flag("echo")?.unwrap_or(false);
    if echo && prompts.iter().any(|prompt| matches!(prompt, PromptForm::Ids(_))) {
        return Err(fields.unsupported("echo", "it needs prompts of text"));
    }
    let stream_options = fields.object("stream_options")?;
    let usage_in_stream = match &stream_options {
        Some(options) => options.flag("include_usage")?.unwrap_or(false),
        None => false,
    };
    let mut request = NormalRequest {
        model: fields.text("model")?.unwrap_or_default().to_owned(),
        prompts,
        replies,
        echo,
        limit: Some(fields.limit("max_tokens", 1)?.unwrap_or(LIMIT_DEFAULT)),
        stop: stops(&fields, "stop")?,
        sampling: sampling(&fields)?,
        stream: fields.flag("stream")?.unwrap_or(false),
        usage_in_stream,
        session: fields.text("prompt_cache_key")?.map(str::to_owned),
        ..NormalRequest::new(PromptForm::Ids(Vec::new()))
    };
    request.set_seed(fields.integer("seed")?);
    Ok((request, Box::new(CompletionForm { usage_in_stream })))
}

/// A text, a list of texts, a list of ids, or a list of lists of ids.
fn prompts(fields: &Fields<'_>) -> Result<Vec<PromptForm>, ApiError> {
    let wanted = format!("a text, a list of ids, or a list of at most {REPLIES_MAX} of these");
    let parse_special = fields.flag("parse_special")?.unwrap_or(false);
    let raw = |text: &str| PromptForm::Raw { text: text.to_owned(), parse_special };
    let ids = |ids: &[Value]| {
        let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
        ids.iter().map(id).collect::<Option<Vec<u32>>>().map(PromptForm::Ids)
    };
    let one = |value: &Value| match value {
        Value::String(text) => Some(raw(text)),
        Value::Array(items) if items.len() <= IDS_MAX => ids(items),
        _ => None,
    };
    let prompts = match fields.required("prompt", &wanted)? {
        value @ Value::String(_) => one(value).map(|prompt| vec![prompt]),
        value @ Value::Array(items) if items.iter().all(Value::is_number) => one(value).map(|p| vec![p]),
        Value::Array(items) if items.len() <= REPLIES_MAX as usize => items.iter().map(one).collect(),
        _ => None,
    };
    prompts.ok_or_else(|| fields.wrong("prompt", &wanted))
}

struct CompletionForm {
    usage_in_stream: bool,
}

fn head(facts: &ReplyFacts, choices: Value) -> Value {
    json!({
        "id": format!("cmpl-{}", facts.id),
        "object": "text_completion",
        "created": facts.created,
        "model": facts.model,
        "choices": choices,
    })
}

fn choice(index: u32, text: &str, ending: Option<&Ending>) -> Value {
    let finish_reason = ending.map(finish_reason);
    json!({ "index": index, "text": text, "finish_reason": finish_reason, "logprobs": null })
}

impl ReplyForm for CompletionForm {
    fn stream(&self, facts: ReplyFacts) -> Box<dyn ReplyWriter> {
        Box::new(CompletionWriter { facts, usage_in_stream: self.usage_in_stream })
    }

    fn whole(&self, facts: &ReplyFacts, collected: &Collected) -> Value {
        let choices = (0..).zip(&collected.replies).map(|(index, reply)| {
            choice(index, &(reply.reasoning() + &reply.content()), reply.ending.as_ref())
        });
        let mut whole = head(facts, choices.collect());
        whole["usage"] = usage_json(&collected.usage);
        whole
    }
}

struct CompletionWriter {
    facts: ReplyFacts,
    usage_in_stream: bool,
}

impl ReplyWriter for CompletionWriter {
    fn write(&mut self, event: &ReplyEvent, out: &mut Vec<u8>) {
        match event {
            ReplyEvent::Part { index, part: ReplyPart::Content(text) | ReplyPart::Reasoning(text) } => {
                data_event(&head(&self.facts, json!([choice(*index, text, None)])), out);
            }
            ReplyEvent::ReplyEnded { index, ending } => {
                data_event(&head(&self.facts, json!([choice(*index, "", Some(ending))])), out);
            }
            ReplyEvent::Ended(usage) => {
                if self.usage_in_stream {
                    let mut chunk = head(&self.facts, json!([]));
                    chunk["usage"] = usage_json(usage);
                    data_event(&chunk, out);
                }
                out.extend_from_slice(b"data: [DONE]\n\n");
            }
            ReplyEvent::Failed(error) => data_event(&json!({ "error": error.openai() }), out),
            ReplyEvent::Admitted { .. } | ReplyEvent::Begun { .. } | ReplyEvent::Part { .. } => {}
        }
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b": ping\n\n");
    }

    fn framing(&self) -> Framing {
        Framing::Events
    }
}
