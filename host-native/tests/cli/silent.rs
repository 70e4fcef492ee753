//! Models that would answer something else without a word.

use fanlight_tests::synth::{Scripted, Typed};
use serde_json::Value;

use super::everyday::greeter;
use super::{fanlight, file, json_lines};

const QUIET: [&str; 6] = ["--temperature", "0", "--context", "512", "--width", "off"];

/// The prompt of a run as text, special tokens as `<id>`, with the last line of its output.
fn run(name: &str, model: &Scripted, options: &[&str]) -> (String, Value, Vec<Value>) {
    let path = file(name, &model.build().unwrap().to_bytes());
    let lines = json_lines("run", &path, &[&["--json"], &QUIET[..], options].concat());
    let last = lines.last().unwrap().clone();
    let ids: Vec<u64> =
        last["prompt_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
    let text = ids.iter().map(|id| match u8::try_from(*id) {
        Ok(byte) => char::from(byte).to_string(),
        Err(_) => format!("<{id}>"),
    });
    (text.collect(), last, lines)
}

fn codes(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|warning| warning["code"].as_str().unwrap()).collect()
}

/// Seen: the user's text was not in the prompt of a template that goes through the parts of a message.
#[test]
fn n04_a_template_that_wants_parts_gets_them() {
    let template = "{% for m in messages %}<|im_start|>{{ m.role }}{% if m.content[0].type == 'image' %}:\
        {% else %}: {% endif %}{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}\
        {% endif %}{% endfor %}<|im_end|>{% endfor %}{% if add_generation_prompt %}\n{% endif %}";
    let (prompt, last, _) = run("parts.gguf", &greeter(template), &["-p", "Hello there"]);
    assert_eq!(prompt, "<257>user: Hello there<258>\n");
    assert_eq!(last["text"], "Hi");
    // One that prints the user in neither form is refused.
    let path = file("loses-user.gguf", &greeter("<|im_start|>assistant\n").build().unwrap().to_bytes());
    let output = fanlight("run", &path, &["-p", "Hello"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("does not print the user's message"));
}

/// Seen: the system message vanished.
#[test]
fn n05_a_system_message_that_the_template_leaves_out_goes_to_the_user_and_is_told() {
    let template = "{% for m in messages %}{% if m.role != 'system' %}<|im_start|>{{ m.role }}\n\
        {{ m.content }}<|im_end|>{% endif %}{% endfor %}{% if add_generation_prompt %}\n{% endif %}";
    let model = greeter(template);
    let (prompt, last, lines) = run("drops-system.gguf", &model, &["-p", "Hi", "--system", "Be brief."]);
    assert_eq!(prompt, "<257>user\nBe brief.\n\nHi<258>\n");
    assert_eq!(codes(&lines[0]["warnings"]), ["system-left-out"]);
    assert_eq!(codes(&last["warnings"]), ["system-moved-to-user"]);
    let output =
        fanlight("run", &file("drops-system.gguf", &model.build().unwrap().to_bytes()), &["-p", "Hi"]);
    assert!(
        String::from_utf8(output.stderr).unwrap().contains("warning: the chat template leaves out system")
    );
}

/// Seen: turns were spelled in letters, the reply showed `<end_of_turn>` and never stopped.
#[test]
fn n06_control_tokens_that_are_typed_as_text_are_control_and_told() {
    let template = "{% for m in messages %}<start_of_turn>{{ m.role }}\n{{ m.content }}<end_of_turn>\
        {% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}";
    let specials = [
        ("<|endoftext|>", Typed::Control),
        ("<start_of_turn>", Typed::Normal),
        ("<end_of_turn>", Typed::Normal),
    ];
    let mut model = Scripted::new(template, &specials);
    model.says("\n", &["H", "i", "<end_of_turn>", "X", "X"]);
    let (prompt, last, lines) = run("typed-normal.gguf", &model, &["-p", "Hello", "-n", "20"]);
    assert_eq!(prompt, "<257>user\nHello<258><257>model\n");
    assert_eq!((&last["text"], &last["finish"]), (&"Hi".into(), &"stop".into()), "{last}");
    assert_eq!(codes(&lines[0]["warnings"]), ["control-typed-as-text"]);
}

/// Seen: the card said "yes, it brings a chat template", and the page continued text.
#[test]
fn n11_why_a_template_cannot_be_used_is_told() {
    let (_, _, lines) = run("broken-template.gguf", &greeter("{% for %}"), &["--raw", "-p", "\n"]);
    assert_eq!(codes(&lines[0]["warnings"]), ["chat-template-unusable"]);
    assert!(lines[0]["warnings"][0]["message"].as_str().unwrap().contains("does not parse"));
}
