//! Completions: forms of prompts, and replies.

use fanlight_dialects::endpoint::ReplyEndpoint;
use fanlight_dialects::{Ending, PromptForm, ReplyEvent, ReplyPart};
use serde_json::{Value, json};

use crate::script::*;

fn prompts(prompt: Value) -> Result<Vec<PromptForm>, String> {
    let body = json!({ "prompt": prompt }).to_string();
    let read = ReplyEndpoint::Completions.read(body.as_bytes(), ASKED);
    read.map(|(request, _)| request.prompts).map_err(|error| error.to_string())
}

#[test]
fn prompts_are_texts_ids_or_lists_of_them() {
    let raw = |text: &str| PromptForm::Raw { text: text.into(), parse_special: false };
    let ids = |ids: &[u32]| PromptForm::Ids(ids.to_vec());
    assert_eq!(prompts(json!("a")).unwrap(), [raw("a")]);
    assert_eq!(prompts(json!(["a", "b"])).unwrap(), [raw("a"), raw("b")]);
    assert_eq!(prompts(json!([1, 2])).unwrap(), [ids(&[1, 2])]);
    assert_eq!(prompts(json!([[1], [2, 3]])).unwrap(), [ids(&[1]), ids(&[2, 3])]);
    for wrong in [json!(null), json!(5), json!([1, "a"]), json!([-1]), json!([1.5]), json!([[[1]]])] {
        assert!(prompts(wrong.clone()).unwrap_err().starts_with("prompt is "), "{wrong}");
    }
    assert!(prompts(json!(vec!["a"; 9])).is_err());
}

#[test]
fn a_stream_says_what_the_whole_says() {
    let read =
        ReplyEndpoint::Completions.read(br#"{"prompt":"a","stream_options":{"include_usage":true}}"#, ASKED);
    let (request, form) = read.unwrap();
    assert_eq!(request.limit, Some(16));
    for cuts in all_cuts() {
        let mut events = reply(cuts);
        events.retain(
            |event| !matches!(event, ReplyEvent::Part { part, .. } if !matches!(part, ReplyPart::Content(_))),
        );
        let place = events.len() - 2;
        events[place] = ReplyEvent::ReplyEnded { index: 0, ending: Ending::Stop };
        let whole = whole(&*form, &events);
        assert_eq!(
            (&whole["choices"][0]["text"], &whole["choices"][0]["finish_reason"]),
            (&json!(ANSWER), &json!("stop"))
        );
        let mut stream = sse(&streamed(&*form, &events));
        assert_eq!(stream.pop().unwrap().1, "[DONE]");
        assert_eq!(json(&stream.pop().unwrap().1)["usage"]["completion_tokens"], 7);
        let chunks: Vec<Value> = stream.iter().map(|(_, data)| json(data)).collect();
        let joined: String =
            chunks.iter().map(|chunk| chunk["choices"][0]["text"].as_str().unwrap()).collect();
        assert_eq!(joined, ANSWER);
        assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
    }
}
