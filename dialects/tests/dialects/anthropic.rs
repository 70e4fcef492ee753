//! Anthropic's messages: what is read of a request, and what a reply looks like.

use fanlight_dialects::endpoint::ReplyEndpoint;
use fanlight_dialects::{
    ApiError, Choice, Ending, Format, NormalRequest, PromptForm, ReplyEvent, ReplyForm, anthropic,
};
use fanlight_messages::protocol::chat::{ChatRole, ChatTurn};
use serde_json::{Value, json};

use crate::captures;
use crate::script::*;

fn try_read(fields: &Value) -> Result<(NormalRequest, Box<dyn ReplyForm>), ApiError> {
    let mut body = json!({ "max_tokens": 9, "messages": [{ "role": "user", "content": "hi" }] });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    ReplyEndpoint::Messages.read(body.to_string().as_bytes(), ASKED)
}

fn read(fields: Value) -> NormalRequest {
    try_read(&fields).unwrap_or_else(|error| panic!("{fields}: {error}")).0
}

fn turns(request: &NormalRequest) -> &[ChatTurn] {
    let [PromptForm::Chat { turns, .. }] = &request.prompts[..] else { panic!("{request:?}") };
    turns
}

#[test]
fn g04_the_system_text_is_a_text_or_blocks_and_what_changes_is_left_out() {
    let system = |system: Value| turns(&read(json!({ "system": system })))[0].content.clone();
    assert_eq!(system(json!("B")), "B");
    let blocks = json!([
        { "type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197.417; cch=1;" },
        { "type": "text", "text": "A", "cache_control": { "type": "ephemeral" } },
        { "type": "text", "text": "B" },
    ]);
    assert_eq!(system(blocks), "A\n\nB");
    assert_eq!(
        system(json!([{ "type": "text", "text": "h: 1" }, { "type": "text", "text": "B" }])),
        "h: 1\n\nB"
    );
}

#[test]
fn messages_of_every_client_are_read() {
    let all = captures::of(ReplyEndpoint::Messages);
    assert!(all.len() >= 6, "{}", all.len());
    for (file, body) in all {
        let read = read(body.clone());
        assert_eq!(read.limit.map(u64::from), body["max_tokens"].as_u64(), "{file}");
        let blocks = |kind: &str| -> usize {
            let messages = body["messages"].as_array().unwrap().iter();
            let all = messages.flat_map(|message| message["content"].as_array().into_iter().flatten());
            all.filter(|block| block["type"] == kind).count()
        };
        let turns = turns(&read);
        let calls: usize = turns.iter().map(|turn| turn.calls.len()).sum();
        assert_eq!(calls, blocks("tool_use"), "{file}");
        let results: Vec<&ChatTurn> = turns.iter().filter(|turn| turn.role == ChatRole::Tool).collect();
        assert_eq!(results.len(), blocks("tool_result"), "{file}");
        let ids: Vec<_> = turns.iter().flat_map(|turn| &turn.calls).map(|call| call.id.clone()).collect();
        assert!(results.iter().all(|result| ids.contains(&result.call_id)), "{file}");
        assert!(turns.iter().all(|turn| !turn.content.contains("x-anthropic-billing-header")), "{file}");
        let [PromptForm::Chat { tools, .. }] = &read.prompts[..] else { panic!() };
        assert_eq!(tools.len(), body["tools"].as_array().map_or(0, Vec::len), "{file}");
    }
}

#[test]
fn blocks_become_turns_in_their_order() {
    let messages = json!([
        { "role": "user", "content": "q" },
        { "role": "assistant", "content": [
            { "type": "thinking", "thinking": "t", "signature": "" },
            { "type": "text", "text": "a" },
            { "type": "tool_use", "id": "toolu_1", "name": "f", "input": { "x": 1 } },
        ] },
        { "role": "user", "content": [
            {
                "type": "tool_result",
                "tool_use_id": "toolu_1",
                "content": [{ "type": "text", "text": "r" }],
                "is_error": true,
            },
            { "type": "text", "text": "go on" },
        ] },
        { "role": "system", "content": "note" },
    ]);
    let read = read(json!({ "messages": messages }));
    let said: Vec<(ChatRole, &str)> =
        turns(&read).iter().map(|turn| (turn.role, turn.content.as_str())).collect();
    use ChatRole::*;
    let note = "<system-reminder>\nnote\n</system-reminder>";
    assert_eq!(said, [(User, "q"), (Assistant, "a"), (Tool, "Error: r"), (User, "go on"), (User, note)]);
    let call = &turns(&read)[1].calls[0];
    assert_eq!((call.name.as_str(), call.arguments.as_str()), ("f", r#"{"x":1}"#));
    assert_eq!(turns(&read)[1].reasoning, None, "the user has spoken since");
    assert_eq!(turns(&read)[2].call_id.as_deref(), Some("toolu_1"));
}

#[test]
fn choices_thoughts_and_formats_are_read() {
    let tools = json!([
        { "name": "f", "input_schema": { "type": "object" } },
        { "type": "web_search_1", "name": "w" },
    ]);
    let choice = |choice: Value| {
        let read = read(json!({ "tools": tools, "tool_choice": choice }));
        (read.choice, read.parallel)
    };
    assert_eq!(choice(json!({ "type": "any" })), (Choice::Required, true));
    let named = json!({ "type": "tool", "name": "f", "disable_parallel_tool_use": true });
    assert_eq!(choice(named), (Choice::Named("f".into()), false));
    assert!(try_read(&json!({ "tools": tools, "tool_choice": { "type": "tool", "name": "w" } })).is_err());
    let think = |thinking: Value| read(json!({ "thinking": thinking })).think;
    assert_eq!(think(json!({ "type": "enabled", "budget_tokens": 1000 })), Some(true));
    assert_eq!((think(json!({ "type": "adaptive" })), think(Value::Null)), (None, Some(false)));
    let format = json!({ "format": { "type": "json_schema", "schema": { "type": "object" } } });
    let read = read(json!({ "output_config": format }));
    assert_eq!(read.format, Format::JsonSchema(r#"{"type":"object"}"#.into()));
}

#[test]
fn what_cannot_be_served_is_refused() {
    let cases = [
        json!({ "max_tokens": null }),
        json!({ "messages": [] }),
        json!({ "messages": [{ "role": "user", "content": [{ "type": "image" }] }] }),
        json!({ "messages": [{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" }] }),
        json!({ "system": 5 }),
        json!({ "stop_sequences": [""] }),
        json!({ "tool_choice": { "type": "any" } }),
    ];
    for fields in cases {
        let error = try_read(&fields).err().unwrap_or_else(|| panic!("{fields} is served"));
        assert_eq!(error.status(), 400, "{fields}: {error}");
    }
    assert!(anthropic::read_count(br#"{"messages":[{"role":"user","content":"a"}]}"#).is_ok());
}

#[test]
fn blocks_of_a_stream_say_what_the_whole_says_and_never_overlap() {
    let (_, form) = try_read(&json!({})).unwrap();
    let wanted = whole(&*form, &reply(0));
    let call = |id: &str, name: &str| {
        let (id, input) = (format!("toolu_{id}"), json(ARGUMENTS));
        json!({ "type": "tool_use", "id": id, "name": name, "input": input })
    };
    assert_eq!(
        wanted["content"],
        json!([
            { "type": "thinking", "thinking": THOUGHT, "signature": "" },
            { "type": "text", "text": ANSWER },
            call("aaaaaaaaaaaaaaaaaaaaaaaa", "weather"),
            call("bbbbbbbbbbbbbbbbbbbbbbbb", "weather2"),
        ])
    );
    assert_eq!(
        wanted["usage"],
        json!({
            "input_tokens": 7,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 5,
            "output_tokens": 7,
        })
    );
    for cuts in all_cuts() {
        assert_eq!(whole(&*form, &reply(cuts)), wanted);
        assert_eq!(rebuilt(&streamed(&*form, &reply(cuts))), wanted);
    }
}

/// The message that a stream of events describes.
fn rebuilt(stream: &str) -> Value {
    let mut message = Value::Null;
    let mut open: Option<(usize, String)> = None;
    for (name, data) in sse(stream) {
        let data = json(&data);
        assert_eq!(data["type"], name.as_str());
        match name.as_str() {
            "message_start" => message = data["message"].clone(),
            "content_block_start" => {
                assert!(open.is_none(), "a block within a block");
                let content = message["content"].as_array_mut().unwrap();
                assert_eq!(data["index"], content.len());
                open = Some((content.len(), String::new()));
                content.push(data["content_block"].clone());
            }
            "content_block_delta" => {
                let (index, said) = open.as_mut().unwrap();
                assert_eq!(data["index"], *index);
                let delta = &data["delta"];
                let field = match delta["type"].as_str().unwrap() {
                    "text_delta" => "text",
                    "thinking_delta" => "thinking",
                    "input_json_delta" => "partial_json",
                    other => panic!("{other}"),
                };
                said.push_str(delta[field].as_str().unwrap());
            }
            "content_block_stop" => {
                let (index, said) = open.take().unwrap();
                let block = &mut message["content"][index];
                match block["type"].as_str().unwrap() {
                    "tool_use" => block["input"] = json(&said),
                    kind => {
                        let field = if kind == "text" { "text" } else { "thinking" };
                        block[field] = said.into();
                    }
                }
            }
            "message_delta" => {
                message["stop_reason"] = data["delta"]["stop_reason"].clone();
                message["stop_sequence"] = data["delta"]["stop_sequence"].clone();
                message["usage"] = data["usage"].clone();
            }
            "message_stop" => {}
            other => panic!("{other}"),
        }
    }
    assert!(open.is_none());
    message
}

#[test]
fn endings_have_their_names_and_a_ping_comes_after_the_start() {
    let (_, form) = try_read(&json!({})).unwrap();
    let ended = |ending: Ending| {
        let mut events = reply(0);
        let place = events.len() - 2;
        events[place] = ReplyEvent::ReplyEnded { index: 0, ending };
        let whole = whole(&*form, &events);
        assert_eq!(rebuilt(&streamed(&*form, &events)), whole);
        (whole["stop_reason"].clone(), whole["stop_sequence"].clone())
    };
    assert_eq!(ended(Ending::Stop), (json!("end_turn"), Value::Null));
    assert_eq!(ended(Ending::StopText("X".into())), (json!("stop_sequence"), json!("X")));
    assert_eq!(ended(Ending::Length), (json!("max_tokens"), Value::Null));
    assert_eq!(ended(Ending::ContextFull), (json!("model_context_window_exceeded"), Value::Null));
    let mut writer = form.stream(facts());
    let mut out = Vec::new();
    writer.write(&ReplyEvent::Admitted { prompt_tokens: 12 }, &mut out);
    assert!(out.is_empty());
    writer.keep_alive(&mut out);
    let events = sse(std::str::from_utf8(&out).unwrap());
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["message_start", "ping"]);
    assert_eq!(json(&events[0].1)["message"]["usage"]["input_tokens"], 12);
}
