//! Whether a template prints what it is given. One that leaves out the user, the system message or the
//! model's replies would make a model answer something else without a word.

use super::clock::LocalTime;
use super::error::TemplateError;
use super::message::{self, Arguments, ChatMessage, Content, Form, Role};
use super::{ChatOptions, ChatTemplate};
use fanlight_messages::reply::Think;
use fanlight_messages::warning::Warning;
use serde_json::Value;

/// Texts that no template has in itself, in letters only, so that trimming, escaping and a change of case
/// leave them recognisable.
const SYSTEM: &str = "qzsystemqz";
const USER: &str = "qzuserqz";
const REPLY: &str = "qzreplyqz";
const MORE: &str = "qzmoreqz";

/// What a template was found to want and to leave out.
pub(super) struct Found {
    pub content: Content,
    pub loses_system: bool,
    pub warnings: Vec<Warning>,
}

/// Renders a conversation of known texts.
pub(super) fn probe(template: &ChatTemplate) -> Result<Found, TemplateError> {
    let content = wanted_content(template)?;
    let mut found = Found { content, loses_system: false, warnings: Vec::new() };
    let turns = [(Role::System, SYSTEM), (Role::User, USER), (Role::Assistant, REPLY), (Role::User, MORE)];
    let Some((text, system)) = whole_conversation(template, content, &turns) else { return Ok(found) };
    let places = |mark: &str| text.match_indices(mark).map(|(at, _)| at).collect::<Vec<_>>();
    let [systems, users, replies, mores] = [SYSTEM, USER, REPLY, MORE].map(places);
    if system == Told::InPlace && systems.is_empty() {
        found.loses_system = true;
        found.warnings.push(Warning::SystemLeftOut);
    }
    if replies.is_empty() {
        found.warnings.push(Warning::RepliesLeftOut);
    }
    let all = [&systems, &users, &replies, &mores];
    let is_once = all.iter().all(|places| places.len() <= 1) && !users.is_empty() && !mores.is_empty();
    // A system message may stand before any message of the user.
    let in_turn: Vec<usize> = [users, replies, mores.clone()].concat();
    if !is_once || !in_turn.is_sorted() || systems.first() > mores.first() {
        found.warnings.push(Warning::OutOfOrder);
    }
    Ok(found)
}

/// The form in which a message of the user comes out.
fn wanted_content(template: &ChatTemplate) -> Result<Content, TemplateError> {
    let alone = [(Role::User, USER)];
    let with_system = [(Role::System, SYSTEM), (Role::User, USER)];
    let mut refusal = None;
    let mut is_printed = false;
    for content in [Content::Text, Content::Parts] {
        for turns in [&alone[..], &with_system[..]] {
            match render(template, content, &messages(turns)) {
                Ok(text) if text.contains(USER) => return Ok(content),
                Ok(_) => is_printed = true,
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
    }
    Err(refusal.filter(|_| !is_printed).unwrap_or(TemplateError::LosesUser))
}

/// How a system message was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    InPlace,
    ByUser,
}

/// The whole conversation, as far as the template takes it; `None` when it takes none, which is told when one
/// is rendered.
fn whole_conversation(
    template: &ChatTemplate,
    content: Content,
    turns: &[(Role, &str)],
) -> Option<(String, Told)> {
    message::variants(&messages(turns), false).into_iter().find_map(|(messages, warnings)| {
        let told = if warnings.contains(&Warning::SystemMovedToUser) { Told::ByUser } else { Told::InPlace };
        Some((render(template, content, &messages).ok()?, told))
    })
}

fn messages(turns: &[(Role, &str)]) -> Vec<ChatMessage> {
    turns.iter().map(|(role, text)| ChatMessage::new(*role, *text)).collect()
}

/// What a template prints, in lower case.
fn render(
    template: &ChatTemplate,
    content: Content,
    messages: &[ChatMessage],
) -> Result<String, TemplateError> {
    let now = LocalTime { year: 2000, month: 1, day: 1, hour: 12, minute: 0, second: 0 };
    let options = ChatOptions { add_generation_prompt: true, think: Think::Off, tools: None, now };
    let form = Form { content, arguments: Arguments::Object };
    let values = message::to_json(messages, form, &message::unmarked);
    template.render_values(&values, &Value::Null, &options).map(|text| text.to_lowercase())
}
