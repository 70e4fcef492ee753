//! Ollama's chat and generate: what is read of a request, and the lines of a reply.

use fanlight_dialects::endpoint::ReplyEndpoint;
use fanlight_dialects::{Format, NormalRequest, PromptForm, ReplyForm};
use fanlight_messages::protocol::chat::ChatRole;
use serde_json::{Value, json};

use crate::captures;
use crate::script::*;

fn chat(body: &Value) -> Result<(NormalRequest, Box<dyn ReplyForm>), String> {
    let read = ReplyEndpoint::OllamaChat.read(body.to_string().as_bytes(), ASKED);
    read.map_err(|error| error.to_string())
}

#[test]
fn requests_of_clients_are_read() {
    let all = captures::of(ReplyEndpoint::OllamaChat);
    assert!(all.len() >= 5, "{}", all.len());
    for (file, body) in all {
        let (read, _) = chat(&body).unwrap();
        assert_eq!(read.stream, body["stream"] != false, "{file}");
        let options = &body["options"];
        assert_eq!(read.sampling.temperature, options["temperature"].as_f64().unwrap_or(0.8), "{file}");
        assert_eq!(u64::from(read.sampling.top_k), options["top_k"].as_u64().unwrap_or(40), "{file}");
        assert_eq!(read.limit.map(u64::from), options["num_predict"].as_u64(), "{file}");
        let [PromptForm::Chat { turns, tools }] = &read.prompts[..] else { panic!("{file}") };
        assert_eq!(turns.len(), body["messages"].as_array().unwrap().len(), "{file}");
        assert_eq!(tools.len(), body["tools"].as_array().map_or(0, Vec::len), "{file}");
        assert_eq!(read.format != Format::Text, !body["format"].is_null(), "{file}");
    }
    for (_, body) in captures::of(ReplyEndpoint::OllamaGenerate) {
        let (read, _) = ReplyEndpoint::OllamaGenerate.read(body.to_string().as_bytes(), ASKED).unwrap();
        let [PromptForm::Chat { turns, .. }] = &read.prompts[..] else { panic!() };
        let roles: Vec<ChatRole> = turns.iter().map(|turn| turn.role).collect();
        assert_eq!(roles, [ChatRole::System, ChatRole::User]);
    }
}

#[test]
fn a_context_beyond_the_served_one_is_refused_with_both_numbers() {
    let messages = json!([{ "role": "user", "content": "a" }]);
    let body = |context: u32| json!({ "messages": messages, "options": { "num_ctx": context } });
    assert!(chat(&body(4096)).is_ok());
    let error = chat(&body(8192)).err().unwrap();
    assert!(error.contains("8192") && error.contains("4096"), "{error}");
}

#[test]
fn nothing_to_say_loads_and_pictures_are_refused() {
    assert!(chat(&json!({ "model": "x" })).unwrap().0.prompts.is_empty());
    let message = json!({ "role": "user", "content": "a", "images": ["…"] });
    assert!(chat(&json!({ "messages": [message] })).is_err());
    let generate = |body: Value| ReplyEndpoint::OllamaGenerate.read(body.to_string().as_bytes(), ASKED);
    assert!(generate(json!({ "prompt": "" })).unwrap().0.prompts.is_empty());
    assert!(generate(json!({ "prompt": "a", "template": "b" })).is_err());
    let (raw, _) = generate(json!({ "prompt": "a", "raw": true })).unwrap();
    assert_eq!(raw.prompts, [PromptForm::Raw { text: "a".into(), parse_special: true }]);
}

#[test]
fn lines_say_what_the_whole_says_and_calls_come_whole() {
    let (_, form) = chat(&json!({ "messages": [{ "role": "user", "content": "a" }] })).unwrap();
    let wanted = whole(&*form, &reply(0));
    assert_eq!(wanted["message"]["content"], ANSWER);
    assert_eq!(wanted["message"]["thinking"], THOUGHT);
    assert_eq!(wanted["message"]["tool_calls"][0]["function"]["arguments"], json(ARGUMENTS));
    for cuts in all_cuts() {
        assert_eq!(whole(&*form, &reply(cuts)), wanted);
        let lines: Vec<Value> = streamed(&*form, &reply(cuts)).lines().map(json).collect();
        let (last, inner) = lines.split_last().unwrap();
        assert!(inner.iter().all(|line| line["done"] == false));
        let joined = |field: &str| -> String {
            lines.iter().filter_map(|line| line["message"][field].as_str()).collect()
        };
        assert_eq!((joined("content"), joined("thinking")), (ANSWER.to_owned(), THOUGHT.to_owned()));
        let calls: Vec<Value> = inner
            .iter()
            .flat_map(|line| line["message"]["tool_calls"].as_array().into_iter().flatten())
            .cloned()
            .collect();
        assert_eq!(json!(calls), wanted["message"]["tool_calls"]);
        assert_eq!((&last["done"], &last["done_reason"]), (&json!(true), &json!("stop")));
        assert_eq!((&last["prompt_eval_count"], &last["eval_count"]), (&json!(12), &json!(7)));
    }
}
