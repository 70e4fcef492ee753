//! OpenAI's responses: what is read of a request, and what a reply looks like.

use fanlight_dialects::endpoint::{Asked, ReplyEndpoint};
use fanlight_dialects::{
    ApiError, Ending, Format, NormalRequest, PromptForm, ReplyEvent, ReplyForm, ReplyPart,
};
use fanlight_messages::protocol::chat::{ChatRole, ChatTurn};
use serde_json::{Value, json};

use crate::captures;
use crate::script::*;

const CODEX: Asked<'static> = Asked { context_len: 4096, originator: "codex_cli_rs" };

fn try_read(body: &Value, asked: Asked<'_>) -> Result<(NormalRequest, Box<dyn ReplyForm>), ApiError> {
    ReplyEndpoint::Responses.read(body.to_string().as_bytes(), asked)
}

fn read(body: Value) -> (NormalRequest, Box<dyn ReplyForm>) {
    try_read(&body, ASKED).unwrap_or_else(|error| panic!("{body}: {error}"))
}

fn turns(request: &NormalRequest) -> &[ChatTurn] {
    let [PromptForm::Chat { turns, .. }] = &request.prompts[..] else { panic!("{request:?}") };
    turns
}

#[test]
fn responses_of_every_client_are_read() {
    let all = captures::of(ReplyEndpoint::Responses);
    assert!(all.len() >= 8, "{}", all.len());
    for (file, body) in all {
        let (read, _) = read(body.clone());
        let items = body["input"].as_array().map_or(&[][..], Vec::as_slice);
        let of_type = |kind: &str| items.iter().filter(|item| item["type"] == kind).count();
        let calls: usize = turns(&read).iter().map(|turn| turn.calls.len()).sum();
        assert_eq!(calls, of_type("function_call"), "{file}");
        let outputs = turns(&read).iter().filter(|turn| turn.role == ChatRole::Tool).count();
        assert_eq!(outputs, of_type("function_call_output"), "{file}");
        let [PromptForm::Chat { tools, .. }] = &read.prompts[..] else { panic!() };
        let offered = body["tools"].as_array().map_or(&[][..], Vec::as_slice);
        let wanted: usize = offered
            .iter()
            .map(|tool| match tool["type"].as_str().unwrap() {
                "function" => 1,
                "namespace" => tool["tools"].as_array().unwrap().len(),
                _ => 0,
            })
            .sum();
        assert_eq!(tools.len(), wanted, "{file}");
        assert_eq!(read.format != Format::Text, !body["text"]["format"].is_null(), "{file}");
        assert_eq!(read.limit.map(u64::from), body["max_output_tokens"].as_u64(), "{file}");
    }
}

#[test]
fn items_become_turns_and_what_needs_a_memory_is_refused() {
    let input = json!([
        { "role": "developer", "content": "d" },
        { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "q" }] },
        { "type": "reasoning", "content": [{ "type": "reasoning_text", "text": "t" }], "summary": [] },
        { "type": "function_call", "call_id": "call_1", "name": "f", "namespace": "n", "arguments": "{}" },
        { "type": "function_call", "call_id": "call_2", "name": "g", "arguments": "{\"x\":1}" },
        { "type": "web_search_call", "status": "completed" },
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": [{ "type": "input_text", "text": "r" }],
        },
        { "type": "function_call_output", "call_id": "call_2", "output": "s" },
    ]);
    let (read, _) = read(json!({ "instructions": "i", "input": input }));
    let said: Vec<(ChatRole, &str)> =
        turns(&read).iter().map(|turn| (turn.role, turn.content.as_str())).collect();
    use ChatRole::*;
    assert_eq!(said, [(System, "i"), (System, "d"), (User, "q"), (Assistant, ""), (Tool, "r"), (Tool, "s")]);
    let turn = &turns(&read)[3];
    let names: Vec<&str> = turn.calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!((names, turn.reasoning.as_deref()), (vec!["n__f", "g"], Some("t")));
    for body in [
        json!({ "input": "a", "previous_response_id": "resp_1" }),
        json!({ "input": "a", "conversation": "c" }),
        json!({ "input": "a", "background": true }),
        json!({ "input": [{ "role": "user", "content": [{ "type": "input_image" }] }] }),
        json!({ "input": [{ "type": "riddle" }] }),
        json!({ "input": [] }),
        json!({}),
    ] {
        assert_eq!(try_read(&body, ASKED).err().map(|error| error.status()), Some(400), "{body}");
    }
    assert_eq!(turns(&self::read(json!({ "input": "", "max_output_tokens": 1 })).0).len(), 1);
}

/// The last response and the items that events describe.
fn rebuilt(stream: &str) -> Value {
    let (mut items, mut text, mut last) = (Vec::new(), String::new(), Value::Null);
    for (number, (name, data)) in sse(stream).into_iter().enumerate() {
        let data = json(&data);
        assert_eq!((&data["type"], &data["sequence_number"]), (&json!(name), &json!(number)));
        match name.as_str() {
            "response.output_item.added" => {
                assert_eq!(data["output_index"], items.len());
                text.clear();
            }
            name if name.ends_with(".delta") => text += data["delta"].as_str().unwrap(),
            "response.output_text.done" | "response.reasoning_text.done" => assert_eq!(data["text"], text),
            "response.function_call_arguments.done" => assert_eq!(data["arguments"], text),
            "response.output_item.done" => items.push(data["item"].clone()),
            "response.completed" | "response.incomplete" | "response.failed" => {
                last = data["response"].clone()
            }
            _ => {}
        }
    }
    assert_eq!(last["output"].as_array().unwrap(), &items);
    last
}

#[test]
fn events_say_what_the_whole_says_and_a_namespace_comes_back() {
    let inner = json!([{ "type": "function", "name": "her", "parameters": { "type": "object" } }]);
    let tools = json!([{ "type": "namespace", "name": "weat", "tools": inner }, { "type": "web_search" }]);
    let (request, form) = read(json!({ "input": "a", "tools": tools, "instructions": "i" }));
    let [PromptForm::Chat { tools, .. }] = &request.prompts[..] else { panic!() };
    assert_eq!(tools[0].name, "weat__her");
    let renamed = |mut events: Vec<ReplyEvent>| {
        for event in &mut events {
            if let ReplyEvent::Part { part: ReplyPart::CallBegin { name, .. }, .. } = event
                && name == "weather"
            {
                *name = "weat__her".into();
            }
        }
        events
    };
    let wanted = whole(&*form, &renamed(reply(0)));
    assert_eq!((&wanted["status"], &wanted["instructions"]), (&json!("completed"), &json!("i")));
    assert_eq!(wanted["usage"]["total_tokens"], 19);
    let kinds: Vec<&Value> = wanted["output"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call"]);
    assert_eq!(wanted["output"][1]["content"][0]["text"], ANSWER);
    let call = &wanted["output"][2];
    assert_eq!((&call["namespace"], &call["name"]), (&json!("weat"), &json!("her")));
    assert_eq!(
        (call["arguments"].as_str(), call["call_id"].as_str()),
        (Some(ARGUMENTS), Some("call_aaaaaaaaaaaaaaaaaaaaaaaa"))
    );
    assert_eq!(wanted["output"][3].get("namespace"), None);
    for cuts in all_cuts() {
        let events = renamed(reply(cuts));
        assert_eq!(whole(&*form, &events), wanted);
        assert_eq!(rebuilt(&streamed(&*form, &events)), wanted);
    }
}

#[test]
fn a_reply_that_was_cut_off_is_told_as_each_client_takes_it() {
    let mut events = reply(0);
    let place = events.len() - 2;
    events[place] = ReplyEvent::ReplyEnded { index: 0, ending: Ending::Length };
    let last = |asked: Asked<'_>| {
        let (_, form) = try_read(&json!({ "input": "a" }), asked).unwrap();
        let stream = streamed(&*form, &events);
        let name = sse(&stream).last().unwrap().0.clone();
        (name, rebuilt(&stream)["status"].clone())
    };
    assert_eq!(last(ASKED), ("response.incomplete".into(), json!("incomplete")));
    assert_eq!(last(CODEX), ("response.completed".into(), json!("incomplete")));
    let (_, form) = read(json!({ "input": "a" }));
    let failed = [ReplyEvent::Failed(ApiError::PromptTooLong { tokens: 9, context_len: 8 })];
    let stream = streamed(&*form, &failed);
    assert_eq!(rebuilt(&stream)["error"]["code"], "context_length_exceeded");
    assert_eq!(sse(&stream).last().unwrap().0, "response.failed");
    // A sign of life is an event that this client counts.
    let mut writer = form.stream(facts());
    let mut out = Vec::new();
    writer.write(&ReplyEvent::Admitted { prompt_tokens: 1 }, &mut out);
    writer.keep_alive(&mut out);
    let events = sse(std::str::from_utf8(&out).unwrap());
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["response.created", "response.in_progress", "response.in_progress"]);
}
