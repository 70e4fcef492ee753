//! Errors in the shape of each dialect, with the words that clients look for.

use fanlight_dialects::{ApiError, Dialect};

#[test]
fn clients_find_their_words_for_a_prompt_that_is_too_long() {
    let error = ApiError::PromptTooLong { tokens: 21_000, context_len: 8192 };
    let openai = error.body(Dialect::OpenAi, "r");
    assert_eq!(openai["error"]["code"], "context_length_exceeded");
    let message = openai["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("This model's maximum context length is 8192 tokens."), "{message}");
    assert!(message.contains("resulted in 21000 tokens"), "{message}");
    let anthropic = error.body(Dialect::Anthropic, "r");
    assert_eq!(anthropic["error"]["message"], "prompt is too long: 21000 tokens > 8192 maximum");
    assert_eq!((&anthropic["type"], &anthropic["request_id"]), (&"error".into(), &"r".into()));
    assert!(error.body(Dialect::Ollama, "r")["error"].is_string());
}

#[test]
fn a_missing_model_is_named() {
    let error = ApiError::Model { wanted: "x".into(), served: "y".into() };
    assert_eq!(error.status(), 404);
    assert_eq!(error.body(Dialect::OpenAi, "r")["error"]["code"], "model_not_found");
    assert_eq!(error.body(Dialect::Ollama, "r")["error"], "model \"x\" not found, try pulling it first");
}
