//! Chat completions: what is read of a request, and what a reply looks like.

use fanlight_dialects::endpoint::ReplyEndpoint;
use fanlight_dialects::{
    ApiError, Choice, Ending, Format, NormalRequest, PromptForm, ReplyEvent, ReplyForm, ReplyPart,
};
use fanlight_messages::protocol::chat::ChatRole;
use serde_json::{Value, json};

use crate::script::*;

type Read = Result<(NormalRequest, Box<dyn ReplyForm>), ApiError>;

fn try_read(fields: &Value) -> Read {
    let mut body = json!({ "messages": [{ "role": "user", "content": "hi" }] });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    ReplyEndpoint::ChatCompletions.read(body.to_string().as_bytes(), ASKED)
}

fn read(fields: Value) -> NormalRequest {
    try_read(&fields).unwrap_or_else(|error| panic!("{fields}: {error}")).0
}

fn chunks(fields: Value, events: &[ReplyEvent]) -> Vec<Value> {
    let (_, form) = try_read(&fields).unwrap();
    let mut events = sse(&streamed(&*form, events));
    assert_eq!(events.pop().unwrap().1, "[DONE]");
    events.iter().map(|(_, data)| json(data)).collect()
}

#[test]
fn g09_names_for_one_thing_mean_it_and_unknown_fields_are_ignored() {
    assert_eq!(read(json!({ "max_completion_tokens": 5 })).limit, Some(5));
    assert_eq!(read(json!({ "max_completion_tokens": 5, "max_tokens": 9 })).limit, Some(5));
    assert_eq!(
        read(json!({ "max_tokens": 9, "tool_servers": [1], "options": { "num_ctx": 1 } })).limit,
        Some(9)
    );
    assert_eq!(read(json!({ "max_tokens": 5_000_000_000u64 })).limit, Some(u32::MAX));
    assert_eq!(read(json!({})).limit, None);
    assert_eq!(read(json!({ "stop": "a" })).stop, ["a"]);
    assert_eq!(read(json!({ "stop": ["a", "b"] })).stop, ["a", "b"]);
    assert_eq!(read(json!({ "n": 2 })).replies, 2);
    let parts = json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }]);
    let read = read(json!({ "messages": [{ "role": "developer", "content": parts }] }));
    let [PromptForm::Chat { turns, .. }] = &read.prompts[..] else { panic!() };
    assert_eq!((turns[0].role, turns[0].content.as_str()), (ChatRole::System, "ab"));
}

#[test]
fn choices_formats_and_seeds_are_read() {
    let tools =
        json!([{ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } }]);
    let choice = |choice: Value| read(json!({ "tools": tools, "tool_choice": choice })).choice;
    assert_eq!(choice(json!("required")), Choice::Required);
    assert_eq!(choice(json!("none")), Choice::None);
    assert_eq!(choice(json!({ "type": "function", "function": { "name": "f" } })), Choice::Named("f".into()));
    assert!(read(json!({ "tools": tools })).offers_tools());
    assert!(!read(json!({ "tools": tools, "tool_choice": "none" })).offers_tools());
    let schema =
        json!({ "type": "json_schema", "json_schema": { "name": "P", "schema": { "type": "object" } } });
    let format = |format: Value| read(json!({ "response_format": format })).format;
    assert_eq!(format(schema), Format::JsonSchema(r#"{"type":"object"}"#.into()));
    assert_eq!(format(json!({ "type": "json_object" })), Format::JsonObject);
    let seed = |seed: Value| {
        let read = read(json!({ "seed": seed }));
        read.has_seed.then_some(read.sampling.seed)
    };
    assert_eq!(seed(json!(7)), Some(7));
    assert_eq!(seed(json!(9_007_199_254_740_992u64)), Some(1 << 53));
    assert_eq!((seed(json!(-1)), seed(Value::Null)), (None, None));
    let think = |fields: Value| read(fields).think;
    assert_eq!(think(json!({ "reasoning_effort": "minimal" })), Some(false));
    assert_eq!(think(json!({ "reasoning_effort": "high" })), Some(true));
    assert_eq!(think(json!({ "chat_template_kwargs": { "enable_thinking": false } })), Some(false));
    assert_eq!(think(json!({})), None);
}

#[test]
fn what_cannot_be_served_is_refused_by_its_name() {
    let cases = [
        (json!({ "temperature": "hot" }), "temperature"),
        (json!({ "temperature": 1000 }), "temperature"),
        (json!({ "top_p": 1.5 }), "top_p"),
        (json!({ "stop": [""] }), "stop"),
        (json!({ "stop": 5 }), "stop"),
        (json!({ "n": 0 }), "n"),
        (json!({ "n": 9 }), "n"),
        (json!({ "max_tokens": 0 }), "max_tokens"),
        (json!({ "logprobs": true }), "logprobs"),
        (json!({ "logit_bias": { "x": 1 } }), "logit_bias"),
        (json!({ "messages": [] }), "messages"),
        (json!({ "messages": null }), "messages"),
        (json!({ "messages": [{ "role": "robot", "content": "" }] }), "messages[0].role"),
        (json!({ "messages": [{ "role": "user", "content": 5 }] }), "messages[0].content"),
        (
            json!({ "messages": [{ "role": "user", "content": [{ "type": "image_url" }] }] }),
            "messages[0].content[0].type",
        ),
        (json!({ "response_format": { "type": "xml" } }), "response_format.type"),
        (json!({ "tool_choice": "required" }), "tool_choice"),
        (json!({ "tools": [{ "type": "function", "function": {} }] }), "tools[0].function.name"),
        (json!({ "stream": "yes" }), "stream"),
    ];
    for (fields, name) in cases {
        let error = try_read(&fields).err().unwrap_or_else(|| panic!("{fields} is served"));
        assert_eq!(error.status(), 400, "{fields}");
        let body = error.body(fanlight_dialects::Dialect::OpenAi, "r");
        assert_eq!(body["error"]["param"], name, "{fields}: {error}");
        assert!(body["error"]["message"].as_str().unwrap().contains(name), "{body}");
    }
}

#[test]
fn g01_only_the_last_chunk_of_a_reply_names_its_end() {
    for cuts in all_cuts() {
        let chunks = chunks(json!({ "stream": true }), &reply(cuts));
        let (last, inner) = chunks.split_last().unwrap();
        assert!(inner.iter().all(|chunk| chunk["choices"][0]["finish_reason"].is_null()));
        assert_eq!(last["choices"][0]["finish_reason"], "tool_calls");
        assert_eq!(last["choices"][0]["delta"], json!({}));
        assert_eq!(chunks[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": "" }));
    }
}

#[test]
fn g02_usage_has_a_chunk_of_its_own_and_only_when_asked_for() {
    for options in [json!({}), json!({ "stream_options": { "include_usage": false } })] {
        let chunks = chunks(options, &reply(0));
        assert!(chunks.iter().all(|chunk| chunk["choices"].as_array().unwrap().len() == 1));
        assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
    }
    let chunks = chunks(json!({ "stream_options": { "include_usage": true } }), &reply(0));
    let (last, inner) = chunks.split_last().unwrap();
    assert!(inner.iter().all(|chunk| chunk["usage"].is_null() && chunk["choices"][0].is_object()));
    assert_eq!((&last["choices"], &last["usage"]["total_tokens"]), (&json!([]), &json!(19)));
    assert_eq!(last["usage"]["prompt_tokens_details"]["cached_tokens"], 5);
    assert_eq!(last["usage"]["completion_tokens_details"]["reasoning_tokens"], 3);
}

#[test]
fn g03_calls_have_index_id_and_name_at_once_and_arguments_in_pieces() {
    for cuts in all_cuts() {
        let mut calls: Vec<(Value, Value, String)> = Vec::new();
        for chunk in chunks(json!({}), &reply(cuts)) {
            let Some([call]) = chunk["choices"][0]["delta"]["tool_calls"].as_array().map(Vec::as_slice)
            else {
                continue;
            };
            let index = call["index"].as_u64().unwrap() as usize;
            if index == calls.len() {
                calls.push((call["id"].clone(), call["function"]["name"].clone(), String::new()));
                assert_eq!(call["type"], "function");
            }
            assert_eq!(index, calls.len() - 1, "calls follow each other");
            calls[index].2 += call["function"]["arguments"].as_str().unwrap();
        }
        let call = |id: &str, name: &str| (json!(format!("call_{id}")), json!(name), ARGUMENTS.to_owned());
        let wanted = [("aaaaaaaaaaaaaaaaaaaaaaaa", "weather"), ("bbbbbbbbbbbbbbbbbbbbbbbb", "weather2")];
        assert_eq!(calls, wanted.map(|(id, name)| call(id, name)));
    }
}

#[test]
fn a_stream_says_what_the_whole_says_however_it_is_cut() {
    let (_, form) = try_read(&json!({})).unwrap();
    let wanted = whole(&*form, &reply(0));
    assert_eq!(wanted["choices"][0]["message"]["content"], ANSWER);
    assert_eq!(wanted["choices"][0]["message"]["reasoning_content"], THOUGHT);
    assert_eq!(wanted["choices"][0]["message"]["tool_calls"][1]["function"]["arguments"], ARGUMENTS);
    assert_eq!(wanted["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(wanted["id"], "chatcmpl-0123456789abcdef0123456789abcdef");
    for cuts in all_cuts() {
        assert_eq!(whole(&*form, &reply(cuts)), wanted);
        let chunks = chunks(json!({}), &reply(cuts));
        let joined = |field: &str| -> String {
            chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"][field].as_str()).collect()
        };
        assert_eq!(joined("content"), ANSWER);
        assert_eq!(joined("reasoning_content"), THOUGHT);
    }
}

#[test]
fn several_replies_keep_their_places() {
    let mut events = vec![ReplyEvent::Admitted { prompt_tokens: 3 }];
    for (index, text) in [(0, "a"), (1, "b")] {
        events.push(ReplyEvent::Part { index, part: ReplyPart::Content(text.into()) });
        events.push(ReplyEvent::ReplyEnded { index, ending: Ending::Length });
    }
    events.push(ReplyEvent::Ended(usage()));
    let (_, form) = try_read(&json!({})).unwrap();
    let whole = whole(&*form, &events);
    let texts: Vec<&Value> =
        whole["choices"].as_array().unwrap().iter().map(|c| &c["message"]["content"]).collect();
    assert_eq!(texts, ["a", "b"]);
    let chunks = chunks(json!({}), &events);
    let places: Vec<u64> =
        chunks.iter().map(|chunk| chunk["choices"][0]["index"].as_u64().unwrap()).collect();
    assert_eq!(places, [0, 0, 0, 1, 1, 1]);
}

#[test]
fn a_call_that_was_cut_off_is_no_call_and_a_failure_ends_without_done() {
    let mut events = reply(0);
    let begun =
        events.iter().position(|e| matches!(e, ReplyEvent::Part { part: ReplyPart::CallEnd, .. })).unwrap();
    events.truncate(begun);
    events.push(ReplyEvent::ReplyEnded { index: 0, ending: Ending::Length });
    let (_, form) = try_read(&json!({})).unwrap();
    let choice = whole(&*form, &events)["choices"][0].clone();
    assert_eq!((&choice["finish_reason"], choice["message"].get("tool_calls")), (&json!("length"), None));
    events.pop();
    events.push(ReplyEvent::Failed(ApiError::Internal { reason: "gone".into() }));
    let stream = sse(&streamed(&*form, &events));
    assert_eq!(json(&stream.last().unwrap().1)["error"]["code"], "internal");
    assert!(stream.iter().all(|(_, data)| data != "[DONE]"));
}
