//! From what a host asks to what the device is given: ids, limits, the reusable beginning. Pure.

use std::rc::Rc;

use fanlight_messages::control::{WINDOW_STEPS_MAX, WINDOWS_IN_FLIGHT};
use fanlight_messages::device::RequestSetup;
use fanlight_messages::draft::{WIDTHS, Width, WidthPolicy};
use fanlight_messages::error::GenerateError;
use fanlight_messages::limits::{MESSAGE_CHARS_MAX, REPLY_TOKENS_MAX};
use fanlight_messages::protocol::engine::{
    ChatTools, ChatTurn, Detokenize, Generate, Prompt, Tokenize, TokenizeInput, WallTime,
};
use fanlight_messages::protocol::memory::MemoryKey;
use fanlight_messages::reply::Think;
use fanlight_models::text::calls::CallSplitter;
use fanlight_models::text::template::{ChatMessage, ChatOptions, LocalTime, tools_json};
use fanlight_models::text::{STOP_BYTES_MAX, STOPS_MAX, Special, TextPosition, Tokenizer};

use super::journal::Journal;
use super::load::LoadedModel;
use super::text::Continues;

/// A reply that is ready to run.
#[derive(Debug, Clone)]
pub(super) struct PreparedReply {
    pub tokenizer: Rc<Tokenizer>,
    pub prompt: Rc<[u32]>,
    /// Leading prompt tokens that the cache holds.
    pub base: usize,
    pub setup: RequestSetup,
    pub chunk_tokens: u32,
    /// What its text begins as.
    pub continues: Continues,
    /// What finds calls in it, where functions are offered.
    pub calls: Option<CallSplitter>,
    /// Whose ids they are.
    pub memory_key: MemoryKey,
}

/// Checks a request against the model and turns its prompt into ids.
pub(super) fn prepare(
    request: &Generate,
    model: &LoadedModel,
    journal: &Journal,
) -> Result<PreparedReply, GenerateError> {
    let max = REPLY_TOKENS_MAX;
    if !(1..=max).contains(&request.token_limit) {
        return Err(GenerateError::TokenLimit { wanted: request.token_limit, min: 1, max });
    }
    if let Some(steps) = request.window_steps
        && (!steps.is_power_of_two() || steps > WINDOW_STEPS_MAX)
    {
        let allowed = "1, 2 or 4".into();
        return Err(GenerateError::Option { option: "window steps", wanted: steps, allowed });
    }
    if !(1..=WINDOWS_IN_FLIGHT).contains(&request.windows_in_flight) {
        let (wanted, allowed) = (request.windows_in_flight, "1 or 2".into());
        return Err(GenerateError::Option { option: "windows in flight", wanted, allowed });
    }
    check_stops(&request.stop)?;
    if let Some(id) = request.sampling.bias_id_max().filter(|id| *id >= model.vocabulary_len) {
        let allowed = format!("0 to {}", model.vocabulary_len.saturating_sub(1));
        return Err(GenerateError::Option { option: "logit bias for token", wanted: id, allowed });
    }
    if let WidthPolicy::Fixed(Width::Nodes(nodes)) | WidthPolicy::Auto { max: nodes } = request.width
        && !WIDTHS.contains(&nodes)
    {
        let allowed = format!("off or one of {WIDTHS:?}");
        return Err(GenerateError::Option { option: "width", wanted: nodes, allowed });
    }
    if request.frame_budget_ms == Some(0) {
        let allowed = "1 or more milliseconds".into();
        return Err(GenerateError::Option { option: "frame budget", wanted: 0, allowed });
    }
    let chunk_tokens = request.chunk_tokens.unwrap_or(model.batch_tokens);
    if !(1..=model.batch_tokens).contains(&chunk_tokens) {
        let allowed = format!("1 to {} (the batch the model was loaded with)", model.batch_tokens);
        return Err(GenerateError::Option { option: "prompt chunk", wanted: chunk_tokens, allowed });
    }
    let chunk_tokens = model.quarantine.chunk_tokens(chunk_tokens);
    let ReadPrompt { ids: prompt, continues, calls } = read_prompt(&request.prompt, model)?;
    if prompt.is_empty() {
        return Err(GenerateError::EmptyPrompt);
    }
    let (prompt_tokens, context_len) = (prompt.len() as u64, model.context_len);
    if prompt_tokens > u64::from(context_len) {
        return Err(GenerateError::PromptTooLong { prompt_tokens, context_len });
    }
    let base = if request.reuse_prefix { journal.reusable_len(&prompt) } else { 0 };
    let setup = RequestSetup {
        end_ids: model.tokenizer.end_ids().to_vec(),
        context_len,
        token_limit: request.token_limit,
        hash_logits: request.hash_logits,
        sampling: request.sampling.clone(),
        generated_from: prompt.len() as u32,
        ..RequestSetup::default()
    };
    let memory_key = model.memory_key();
    let tokenizer = model.tokenizer.clone();
    Ok(PreparedReply { tokenizer, prompt, base, setup, chunk_tokens, continues, calls, memory_key })
}

/// The ids of a prompt, and how the text of a reply to it is read.
struct ReadPrompt {
    ids: Rc<[u32]>,
    continues: Continues,
    calls: Option<CallSplitter>,
}

fn read_prompt(prompt: &Prompt, model: &LoadedModel) -> Result<ReadPrompt, GenerateError> {
    let plain = |ids| ReadPrompt { ids, continues: Continues::Plain, calls: None };
    match prompt {
        Prompt::Raw(text) => {
            check_length(text)?;
            Ok(plain(model.tokenizer.encode_prompt(text, Special::Recognise).into()))
        }
        Prompt::Chat { turns, tools, think, now } => {
            turns.iter().try_for_each(|turn| check_length(&turn.content))?;
            render_chat(turns, tools, *think, *now, model)
        }
        Prompt::Ids(ids) => Ok(plain(check_ids(ids, model)?)),
    }
}

fn check_ids(ids: &Rc<[u32]>, model: &LoadedModel) -> Result<Rc<[u32]>, GenerateError> {
    let max = model.vocabulary_len.saturating_sub(1);
    match (0u64..).zip(ids.iter()).find(|(_, id)| **id > max) {
        Some((position, id)) => Err(GenerateError::TokenId { id: *id, position, max }),
        None => Ok(ids.clone()),
    }
}

/// The ids of a text or prompt.
pub(super) fn tokenize(request: &Tokenize, model: Option<&LoadedModel>) -> Result<Rc<[u32]>, GenerateError> {
    let model = model.ok_or(GenerateError::NoModel)?;
    match &request.input {
        TokenizeInput::Prompt(prompt) => Ok(read_prompt(prompt, model)?.ids),
        TokenizeInput::Text { text, recognise_control, add_begin } => {
            check_length(text)?;
            let special = if *recognise_control { Special::Recognise } else { Special::Ignore };
            Ok(match add_begin {
                true => model.tokenizer.encode_prompt(text, special).into(),
                false => model.tokenizer.encode(text, special).into(),
            })
        }
    }
}

/// The text of ids, each of which the model must have.
pub(super) fn detokenize(request: &Detokenize, model: Option<&LoadedModel>) -> Result<String, GenerateError> {
    let model = model.ok_or(GenerateError::NoModel)?;
    let ids = check_ids(&request.ids.as_slice().into(), model)?;
    Ok(model.tokenizer.decode(&ids, TextPosition::Continuation))
}

fn check_stops(stops: &[String]) -> Result<(), GenerateError> {
    let refused = |reason| Err(GenerateError::StopText { reason });
    if stops.len() > STOPS_MAX {
        return refused(format!("{} are given, at most {STOPS_MAX} are looked for", stops.len()));
    }
    match stops.iter().find(|stop| stop.is_empty() || stop.len() > STOP_BYTES_MAX) {
        Some(stop) => refused(format!("one has {} bytes, 1 to {STOP_BYTES_MAX} are possible", stop.len())),
        None => Ok(()),
    }
}

/// Renders a conversation; control ids come only from the template's own text.
fn render_chat(
    turns: &[ChatTurn],
    tools: &ChatTools,
    think: Think,
    now: WallTime,
    model: &LoadedModel,
) -> Result<ReadPrompt, GenerateError> {
    let template_error = |reason: String| GenerateError::Template { reason };
    let template = model.template.as_ref().map_err(|reason| template_error(reason.clone()))?;
    let messages: Vec<ChatMessage> = turns.iter().map(Into::into).collect();
    let WallTime { year, month, day, hour, minute, second } = now;
    let now = LocalTime { year, month, day, hour, minute, second };
    let options =
        ChatOptions { add_generation_prompt: true, think, tools: tools_json(&tools.functions), now };
    let rendered = template.render(&messages, &options).map_err(|error| template_error(error.to_string()))?;
    let continues = Continues::Conversation { open_reasoning: rendered.open_reasoning() };
    let offers = !tools.functions.is_empty();
    let calls = offers.then(|| CallSplitter::new(rendered.call_form(), tools));
    Ok(ReadPrompt { ids: template.prompt_ids(&model.tokenizer, &rendered).into(), continues, calls })
}

/// Refuses a message that is longer than any that is served, before it is tokenised.
fn check_length(text: &str) -> Result<(), GenerateError> {
    // A character has at least one byte, so most texts need no count.
    if text.len() as u64 <= MESSAGE_CHARS_MAX {
        return Ok(());
    }
    let characters = text.chars().count() as u64;
    if characters > MESSAGE_CHARS_MAX {
        return Err(GenerateError::MessageTooLong { characters, max: MESSAGE_CHARS_MAX });
    }
    Ok(())
}
