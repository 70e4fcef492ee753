//! Requests of real clients, against what a plain walk through their JSON finds.

use std::path::Path;

use fanlight_dialects::endpoint::{Endpoint, ReplyEndpoint};
use fanlight_dialects::{ApiError, NormalRequest, PromptForm};
use serde_json::Value;

use crate::script::{ASKED, json};

/// Every captured request of an endpoint: file, body.
pub fn of(endpoint: ReplyEndpoint) -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for request in json(&std::fs::read_to_string(path).unwrap()).as_array().unwrap() {
            let (method, path) = (request["method"].as_str().unwrap(), request["path"].as_str().unwrap());
            let path = path.split('?').next().unwrap();
            if Endpoint::find(method, path) == Ok(Endpoint::Reply(endpoint)) {
                found.push((name.clone(), request["body"].clone()));
            }
        }
    }
    found
}

/// Reads it, without those fields of it that are refused on purpose.
pub fn read(endpoint: ReplyEndpoint, body: &Value, refused: &[&str]) -> NormalRequest {
    let mut body = body.clone();
    for field in refused {
        if let Some(value) = body.as_object_mut().unwrap().shift_remove(*field) {
            let with = {
                let mut with = body.clone();
                with[*field] = value.clone();
                with
            };
            let error = endpoint.read(with.to_string().as_bytes(), ASKED).err();
            let names = matches!(&error, Some(ApiError::Unsupported { field: named, .. }) if named == field);
            assert!(names || value == false, "{field}: {error:?}");
        }
    }
    endpoint.read(body.to_string().as_bytes(), ASKED).unwrap_or_else(|error| panic!("{body}: {error}")).0
}

#[test]
fn chats_of_every_client_are_read() {
    let all = of(ReplyEndpoint::ChatCompletions);
    assert!(all.len() > 20, "{}", all.len());
    for (file, body) in all {
        let read = read(ReplyEndpoint::ChatCompletions, &body, &["logprobs", "top_logprobs"]);
        let [PromptForm::Chat { turns, tools }] = &read.prompts[..] else { panic!("{file}") };
        let messages = body["messages"].as_array().unwrap();
        assert_eq!(turns.len(), messages.len(), "{file}");
        for (turn, message) in turns.iter().zip(messages) {
            let parts = message["content"].as_array().into_iter().flatten();
            let parts: String = parts.map(|part| part["text"].as_str().unwrap()).collect();
            assert_eq!(turn.content, message["content"].as_str().unwrap_or(&parts), "{file}");
            let calls = message["tool_calls"].as_array().map_or(0, Vec::len);
            assert_eq!(turn.calls.len(), calls, "{file}");
            assert_eq!(turn.call_id.as_deref(), message["tool_call_id"].as_str(), "{file}");
        }
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let wanted = body["tools"].as_array().into_iter().flatten();
        let wanted: Vec<&str> = wanted.map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, wanted, "{file}");
        assert_eq!(read.stream, body["stream"] == true, "{file}");
        assert_eq!(read.usage_in_stream, body["stream_options"]["include_usage"] == true, "{file}");
        let limit = body["max_completion_tokens"].as_u64().or(body["max_tokens"].as_u64());
        assert_eq!(read.limit.map(u64::from), limit, "{file}");
        assert_eq!(read.sampling.temperature, body["temperature"].as_f64().unwrap_or(1.0), "{file}");
    }
}

#[test]
fn completions_of_clients_are_read() {
    let all = of(ReplyEndpoint::Completions);
    assert_eq!(all.len(), 1);
    let read = read(ReplyEndpoint::Completions, &all[0].1, &["logprobs"]);
    assert_eq!(read.prompts, [PromptForm::Raw { text: "hi".into(), parse_special: false }]);
    assert_eq!((read.limit, read.stream, read.echo), (Some(4), false, false));
}
