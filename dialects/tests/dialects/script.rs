//! A reply as the engine tells it, and streams taken apart by a reader of our own.

use fanlight_dialects::endpoint::Asked;
use fanlight_dialects::{Collected, Ending, ReplyEvent, ReplyFacts, ReplyForm, ReplyPart, Usage};
use serde_json::Value;

/// A client that says nothing of itself.
pub const ASKED: Asked<'static> = Asked { context_len: 4096, originator: "" };
pub const THOUGHT: &str = "Hm, wörds.";
pub const ANSWER: &str = "Hello\n\"you\" 😀";
pub const ARGUMENTS: &str = r#"{"city":"Zürich","days":[1,2]}"#;

pub fn facts() -> ReplyFacts {
    ReplyFacts { id: "0123456789abcdef0123456789abcdef".into(), created: 1_700_000_000, model: "tiny".into() }
}

pub fn usage() -> Usage {
    Usage {
        prompt_tokens: 12,
        cached_tokens: 5,
        completion_tokens: 7,
        reasoning_tokens: 3,
        ..Usage::default()
    }
}

/// A text in pieces: cut into characters by the bits of `cuts`.
fn pieces(text: &str, cuts: u64) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for (i, character) in text.chars().enumerate() {
        if i > 0 && (cuts >> (i % 64)) & 1 == 1 {
            pieces.push(String::new());
        }
        pieces.last_mut().unwrap().push(character);
    }
    pieces
}

/// One reply with thoughts, an answer and two calls, cut in one of many ways.
pub fn reply(cuts: u64) -> Vec<ReplyEvent> {
    let part = |part| ReplyEvent::Part { index: 0, part };
    let mut events = vec![ReplyEvent::Admitted { prompt_tokens: 12 }, ReplyEvent::Begun { cached_tokens: 5 }];
    events.extend(pieces(THOUGHT, cuts).into_iter().map(|text| part(ReplyPart::Reasoning(text))));
    events.extend(pieces(ANSWER, cuts).into_iter().map(|text| part(ReplyPart::Content(text))));
    for (id, name) in [("aaaaaaaaaaaaaaaaaaaaaaaa", "weather"), ("bbbbbbbbbbbbbbbbbbbbbbbb", "weather2")] {
        events.push(part(ReplyPart::CallBegin { id: id.into(), name: name.into() }));
        events.extend(pieces(ARGUMENTS, cuts).into_iter().map(|text| part(ReplyPart::CallArguments(text))));
        events.push(part(ReplyPart::CallEnd));
    }
    events.push(ReplyEvent::ReplyEnded { index: 0, ending: Ending::ToolCalls });
    events.push(ReplyEvent::Ended(usage()));
    events
}

/// Ways to cut: none, everywhere, and many between.
pub fn all_cuts() -> impl Iterator<Item = u64> {
    let one = (0..40).map(|place| 1 << place);
    let many = (1..60u64).map(|seed| seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    [0, u64::MAX].into_iter().chain(one).chain(many)
}

/// The bytes of a stream.
pub fn streamed(form: &dyn ReplyForm, events: &[ReplyEvent]) -> String {
    let mut writer = form.stream(facts());
    let mut out = Vec::new();
    events.iter().for_each(|event| writer.write(event, &mut out));
    String::from_utf8(out).unwrap()
}

/// The one response.
pub fn whole(form: &dyn ReplyForm, events: &[ReplyEvent]) -> Value {
    let mut collected = Collected::default();
    events.iter().for_each(|event| collected.take(event).unwrap());
    form.whole(&facts(), &collected)
}

/// Names and data of server-sent events; each is one `data:` line.
pub fn sse(stream: &str) -> Vec<(String, String)> {
    assert!(stream.ends_with("\n\n"), "{stream:?}");
    let events = stream.trim_end_matches("\n\n").split("\n\n").filter(|event| !event.starts_with(':'));
    events
        .map(|event| {
            let (mut name, mut data) = (String::new(), String::new());
            for line in event.lines() {
                match line.split_once(": ") {
                    Some(("event", value)) => name = value.into(),
                    Some(("data", value)) => data = value.into(),
                    _ => panic!("{line:?} in {event:?}"),
                }
            }
            (name, data)
        })
        .collect()
}

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}
