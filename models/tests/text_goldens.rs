//! Ids and rendered prompts of real models against their own tokenizers and a reference renderer.
//!
//! Where the reference implementation of the ids and the model's own tokenizer differ, the golden carries
//! both and the model's own wins.

mod text_helpers;

use fanlight_models::gguf::Metadata;
use fanlight_models::text::template::{ChatMessage, ChatOptions, ChatTemplate, Role};
use fanlight_models::text::{Special, TextPosition, Tokenizer};
use serde_json::Value;
use text_helpers::{golden, options, real_metadata, string, strings, wants_all_models};

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// All strings in all modes. `plain_differs` names the cases whose own ids are only known with control text
/// recognised, because the model's tokenizer has no other mode.
fn check_tokenizer(model: &str, target: &str) {
    let golden = golden(&format!("tokenize.{model}.json"));
    let tokenizer = Tokenizer::from_metadata(&real_metadata(&format!("{model}.gguf"), target)).unwrap();
    assert_eq!(tokenizer.end_ids(), ids(&golden["info"]["eog"]), "ids that end a generation");
    assert_eq!(tokenizer.vocabulary_len() as u64, golden["info"]["n_vocab"].as_u64().unwrap());
    let adds_bos = golden["info"]["add_bos"] == 1;
    assert_eq!(tokenizer.bos(), adds_bos.then(|| golden["info"]["bos"].as_u64().unwrap() as u32));
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 58);
    for case in cases {
        let (name, text) = (case["name"].as_str().unwrap(), case["text"].as_str().unwrap());
        let recognised = tokenizer.encode(text, Special::Recognise);
        let own_ids = case["hf_ids"].is_array();
        let wanted = if own_ids { &case["hf_ids"] } else { &case["ids_parse_special"] };
        assert_eq!(recognised, ids(wanted), "{name} with control text recognised");
        let mut with_bos: Vec<u32> = tokenizer.bos().into_iter().collect();
        with_bos.extend(&recognised);
        if !own_ids {
            assert_eq!(with_bos, ids(&case["ids_bos_parse_special"]), "{name} with BOS");
            let plain = tokenizer.encode(text, Special::Ignore);
            assert_eq!(plain, ids(&case["ids_plain"]), "{name} with control text ignored");
            let round_trip = case["detokenize_roundtrip"] == true;
            assert_eq!(tokenizer.decode(&plain, TextPosition::Start) == text, round_trip, "{name} decoded");
        }
    }
}

#[test]
fn smollm2_ids() {
    check_tokenizer("smollm2-135m-instruct-q4_1", "test");
}

#[test]
fn gemma3_ids() {
    if wants_all_models() {
        check_tokenizer("gemma-3-270m-q4_k_m", "test-models");
    }
}

#[test]
fn qwen25_coder_ids() {
    if wants_all_models() {
        check_tokenizer("qwen2.5-coder-0.5b-instruct-q4_k_m", "test-models");
    }
}

/// All conversations of a golden, character by character.
fn check_template(model: &str, target: &str) {
    let golden = golden(&format!("chat.{model}.json"));
    let metadata = real_metadata(&format!("{model}.gguf"), target);
    let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
    let template = ChatTemplate::from_metadata(&metadata, &tokenizer).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert!(cases.len() >= 6);
    for case in cases {
        let messages: Vec<ChatMessage> =
            case["messages"].as_array().unwrap().iter().map(message_of).collect();
        let options = ChatOptions {
            add_generation_prompt: case["add_generation_prompt"] == true,
            tools: case["kwargs"].get("tools").cloned(),
            ..options()
        };
        let prompt = template.render(&messages, &options).unwrap();
        assert_eq!(prompt.text(), case["rendered"].as_str().unwrap(), "{}", case["name"]);
        // These conversations hold no control text, so recognising it everywhere gives the same ids.
        let recognised = tokenizer.encode(prompt.text(), Special::Recognise);
        assert_eq!(template.prompt_ids(&tokenizer, &prompt), recognised, "{}", case["name"]);
    }
}

fn message_of(message: &Value) -> ChatMessage {
    let role = [Role::System, Role::User, Role::Assistant, Role::Tool];
    let role = role.into_iter().find(|role| role.name() == message["role"].as_str().unwrap()).unwrap();
    ChatMessage::new(role, message["content"].as_str().unwrap())
}

#[test]
fn smollm2_chat() {
    check_template("smollm2-135m-instruct-q4_1", "test");
}

#[test]
fn qwen25_coder_chat() {
    if wants_all_models() {
        check_template("qwen2.5-coder-0.5b-instruct-q4_k_m", "test-models");
    }
}

/// One made vocabulary under many names of `tokenizer.ggml.pre`, against llama.cpp
/// (`tests/goldens/make_pre.py`).
#[test]
fn names_of_pre_tokenizers_cut_as_llama_cpp_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens/pre_tokenizers.json");
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let list = |key: &str| -> Vec<&str> {
        golden[key].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
    };
    let (tokens, texts) = (list("tokens"), list("texts"));
    let mut cuts = std::collections::BTreeSet::new();
    for (name, wanted) in golden["ids"].as_object().unwrap() {
        let metadata = Metadata::new(vec![
            ("tokenizer.ggml.model".to_owned(), string("gpt2")),
            ("tokenizer.ggml.pre".to_owned(), string(name)),
            ("tokenizer.ggml.tokens".to_owned(), strings(&tokens)),
            ("tokenizer.ggml.merges".to_owned(), strings(&list("merges"))),
        ]);
        let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
        for (text, wanted) in texts.iter().zip(wanted.as_array().unwrap()) {
            assert_eq!(tokenizer.encode(text, Special::Ignore), ids(wanted), "{name}: {text:?}");
        }
        cuts.insert(wanted.to_string());
    }
    assert!(cuts.len() >= 7, "the vocabulary tells {} rules apart", cuts.len());
}
