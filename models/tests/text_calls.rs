//! Calls in replies, in every form and however the text is cut.

use fanlight_messages::protocol::chat::{ChatTool, ChatTools};
use fanlight_messages::reply::{CallPart, ReplyPart};
use fanlight_models::text::calls::{CallForm, CallSplitter};

fn tools() -> Vec<ChatTool> {
    let tool = |name: &str, parameters: &str| ChatTool {
        name: name.into(),
        description: String::new(),
        parameters: parameters.into(),
    };
    let schema = r#"{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},
        "deep":{"type":["object","null"]},"on":{"type":"boolean"}}}"#;
    vec![tool("weather", schema), tool("now", "")]
}

/// What a reply of these pieces says: content, and calls with their arguments.
fn split(form: CallForm, is_parallel: bool, pieces: &[&str]) -> (String, Vec<(String, String)>, u32) {
    let mut splitter = CallSplitter::new(form, &ChatTools { functions: tools(), one_call: !is_parallel });
    let mut parts = Vec::new();
    pieces.iter().for_each(|piece| splitter.push(piece, &mut parts));
    let complete = splitter.calls();
    splitter.finish(&mut parts);
    let (mut content, mut calls) = (String::new(), Vec::<(String, String)>::new());
    for part in parts {
        match part {
            ReplyPart::Content(text) => content += &text,
            ReplyPart::Call(CallPart::Begin { name }) => calls.push((name, String::new())),
            ReplyPart::Call(CallPart::Arguments(text)) => calls.last_mut().unwrap().1 += &text,
            ReplyPart::Call(CallPart::End) | ReplyPart::Reasoning(_) => {}
        }
    }
    (content, calls, complete)
}

/// The same for every way of cutting the text in two, and for single characters.
fn check(form: CallForm, text: &str, content: &str, calls: &[(&str, &str)]) {
    let calls: Vec<(String, String)> = calls.iter().map(|(n, a)| ((*n).into(), (*a).into())).collect();
    let wanted = (content.to_owned(), calls.clone(), calls.len() as u32);
    for (cut, _) in text.char_indices() {
        let (first, second) = text.split_at(cut);
        assert_eq!(split(form, true, &[first, second]), wanted, "{text:?} cut at {cut}");
    }
    let characters: Vec<String> = text.chars().map(String::from).collect();
    let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
    assert_eq!(split(form, true, &characters), wanted, "{text:?} by characters");
}

#[test]
fn calls_of_hermes_are_found_among_content() {
    let form = CallForm::Hermes;
    let one = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Ulm\"}}\n</tool_call>";
    check(form, one, "", &[("weather", "{\"city\": \"Ulm\"}")]);
    check(form, &format!("Let me see.\n\n{one}\n"), "Let me see.", &[("weather", "{\"city\": \"Ulm\"}")]);
    let two = format!(
        "{one}\n<tool_call>{{\"arguments\":{{\"a\":[1,\"}}\"]}},\"name\":\"now\"}}</tool_call> Done."
    );
    check(form, &two, " Done.", &[("weather", "{\"city\": \"Ulm\"}"), ("now", "{\"a\":[1,\"}\"]}")]);
    check(form, "<tool_call>{\"name\":\"now\"}</tool_call>", "", &[("now", "{}")]);
    // A mark within a text of the arguments ends nothing.
    let inner = r#"{"city": "a</tool_call><tool_call>\"{"}"#;
    let text = format!("<tool_call>{{\"name\": \"weather\", \"arguments\": {inner}}}</tool_call>");
    check(form, &text, "", &[("weather", inner)]);
    // Without its closing mark, and another right behind it.
    check(
        form,
        "<tool_call>{\"name\":\"now\",\"arguments\":{}}<tool_call>{\"name\":\"now\",\"arguments\":{}}",
        "",
        &[("now", "{}"), ("now", "{}")],
    );
}

#[test]
fn what_is_no_call_is_content() {
    let form = CallForm::Hermes;
    for text in [
        "",
        "a < b <tool",
        "<tool_call>",
        "<tool_call>hello</tool_call>",
        "<tool_call>{\"name\": \"rm\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"arguments\": {}}</tool_call>",
        "text\n\n",
    ] {
        check(form, text, text, &[]);
        check(CallForm::QwenXml, text, text, &[]);
    }
    for text in ["{\"a\": 1}", "hello {\"name\": \"now\"}", "{\"name\": \"rm\", \"parameters\": {}}", "{"] {
        check(CallForm::Llama, text, text, &[]);
    }
}

#[test]
fn parameters_become_json_by_their_schema() {
    let form = CallForm::QwenXml;
    let text = "<tool_call>\n<function=weather>\n<parameter=city>\nNew \"York\"\n</parameter>\n\
                <parameter=days>\n3\n</parameter>\n<parameter=deep>\nNone\n</parameter>\n\
                <parameter=on>\nTrue\n</parameter>\n</function>\n</tool_call>";
    let wanted = r#"{"city":"New \"York\"","days":3,"deep":null,"on":true}"#;
    check(form, text, "", &[("weather", wanted)]);
    // Marks within a text that nothing follows are text.
    let text = "<tool_call><function=weather><parameter=city>a</parameter> b <parameter=x\n\
                </parameter></function></tool_call>";
    check(form, text, "", &[("weather", r#"{"city":"a</parameter> b <parameter=x"}"#)]);
    check(form, "<tool_call><function=now></function></tool_call>", "", &[("now", "{}")]);
}

#[test]
fn an_answer_that_begins_with_an_object_is_the_call() {
    let form = CallForm::Llama;
    let text = " {\"name\": \"weather\", \"parameters\": {\"city\": \"Ulm\"}}";
    check(form, text, "", &[("weather", "{\"city\": \"Ulm\"}")]);
}

#[test]
fn without_parallel_calls_the_reply_is_over_behind_the_first() {
    let one = "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>";
    let (content, calls, complete) = split(CallForm::Hermes, false, &[one, one, "more"]);
    assert_eq!((content.as_str(), calls.len(), complete), ("", 1, 1));
}

#[test]
fn a_call_that_is_cut_off_is_not_complete() {
    let text = "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"U";
    let (content, calls, complete) = split(CallForm::Hermes, true, &[text]);
    assert_eq!((content.as_str(), complete), ("", 0));
    assert_eq!(calls, [("weather".to_owned(), "{\"city\": \"U".to_owned())]);
}

#[test]
fn the_form_is_read_off_the_template() {
    assert_eq!(CallForm::of_template("… <tool_call> … <function="), CallForm::QwenXml);
    assert_eq!(CallForm::of_template("… <tool_call>\n{\"name\""), CallForm::Hermes);
    assert_eq!(CallForm::of_template("{{ '<|python_tag|>' }}"), CallForm::Llama);
    assert_eq!(CallForm::of_template("<|im_start|>"), CallForm::Hermes);
}
