//! OpenAI's dialect: chat completions, completions and models.

mod chat;
mod chat_reply;
mod completions;
mod messages;
mod models;
mod tools;

pub(crate) use chat::choice_of;
pub use chat::read as read_chat;
pub use completions::read as read_completion;
pub use models::{model, models};
pub(crate) use tools::{check_choice, named, tool};

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::fields::Fields;
use crate::reply::{Ending, Usage};

/// How a reply ended, in this dialect's words.
fn finish_reason(ending: &Ending) -> &'static str {
    match ending {
        Ending::Stop | Ending::StopText(_) => "stop",
        Ending::Length | Ending::ContextFull => "length",
        Ending::ToolCalls => "tool_calls",
    }
}

fn usage_json(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": { "cached_tokens": usage.cached_tokens },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning_tokens },
    })
}

/// Token ids and what is added to their logits.
fn logit_bias(fields: &Fields<'_>) -> Result<Vec<(u32, f64)>, ApiError> {
    let wanted = "an object of token ids and numbers";
    let Some(value) = fields.get("logit_bias") else { return Ok(Vec::new()) };
    let object = value.as_object().ok_or_else(|| fields.wrong("logit_bias", wanted))?;
    let pair = |(id, bias): (&String, &Value)| Some((id.parse().ok()?, bias.as_f64()?));
    let pairs: Option<Vec<(u32, f64)>> = object.iter().map(pair).collect();
    pairs.ok_or_else(|| fields.wrong("logit_bias", wanted))
}
