//! Public failure reports of class C (chat templates), one test each, named by its id.

mod text_helpers;

use fanlight_messages::reply::{ReplyPart, Think};
use fanlight_models::gguf::MetadataValue;
use fanlight_models::text::template::{
    Adjustment, ChatMessage, ChatOptions, ChatTemplate, PROMPT_BYTES_MAX, Role, TEMPLATE_BYTES_MAX,
    TemplateError, ToolCall,
};
use fanlight_models::text::{ReasoningSplitter, TextPosition, Tokenizer};
use serde_json::json;
use std::time::{Duration, Instant};
use text_helpers::*;

/// The four messages of several reports.
fn four() -> Vec<ChatMessage> {
    let answer = "<think>t</think>\n\nA";
    messages(&[(Role::System, "S"), (Role::User, "u1"), (Role::Assistant, answer), (Role::User, "u2")])
}

fn user(content: &str) -> Vec<ChatMessage> {
    messages(&[(Role::User, content)])
}

/// What a template prints for one message of the user.
fn print(template: &str) -> String {
    render(template, &user("u")).unwrap()
}

fn load_error(template: &str) -> TemplateError {
    let metadata = ChatMl::new(template).fixture.metadata();
    let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
    ChatTemplate::from_metadata(&metadata, &tokenizer).unwrap_err()
}

#[test]
fn c01_a_prompt_has_exactly_one_bos() {
    for (add_bos, template, wanted) in [
        (true, "{{ bos_token }}{{ messages[0].content }}", 1),
        (true, "{{ messages[0].content }}", 1),
        (true, "{{ bos_token }}{{ bos_token }}{{ messages[0].content }}", 1),
        (false, "{{ messages[0].content }}", 0),
        (false, "{{ bos_token }}{{ messages[0].content }}", 1),
    ] {
        let mut chat = ChatMl::new(template);
        let bos = chat.fixture.piece("<s>", CONTROL, 0.0);
        chat.fixture.entry("tokenizer.ggml.bos_token_id", MetadataValue::U32(bos));
        chat.fixture.entry("tokenizer.ggml.add_bos_token", MetadataValue::Bool(add_bos));
        let (tokenizer, template) = chat.load();
        let prompt = template.render(&user("<s>hi"), &options()).unwrap();
        let ids = template.prompt_ids(&tokenizer, &prompt);
        assert_eq!(ids.iter().filter(|&&id| id == bos).count(), wanted, "{add_bos} {}", prompt.text());
        assert_eq!(ids[0] == bos, wanted == 1);
    }
}

#[test]
fn c02_dates_are_printed_in_the_callers_local_time() {
    assert_eq!(print("{{ strftime_now('%d %b %Y') }}"), "07 Mar 2026");
    assert_eq!(print("{{ strftime_now('%Y-%m-%d %H:%M:%S') }}"), "2026-03-07 09:05:02");
    assert_eq!(print("{{ strftime_now('%B %-d') }}"), "March 7");
    assert_eq!(print("{{ strftime_now is defined }}"), "True");
    assert_eq!(print("{{ strftime_now('%Q %-Q 100%') }}"), "%Q %-Q 100%");
}

#[test]
fn c03_training_marks_are_ignored() {
    assert_eq!(print("{%- generation -%}x{%- endgeneration -%}"), "x");
    assert_eq!(print("a {% generation %}\n x{%+ endgeneration +%}\n b"), "a  x\n b");
    assert_eq!(print("a\n {%- generation -%} x {%- endgeneration %} b"), "ax b");
}

#[test]
fn c04_reverse_slices_and_python_string_methods_work() {
    let template = "{% for m in messages[::-1] %}{{ m.role[0] }}{% endfor %}|\
                    {{ messages[2].content.split('</think>')[-1].lstrip('\\n') }}|{{ messages[1:]|length }}";
    assert_eq!(render(template, &four()).unwrap(), "uaus|A|3");
    // The same where the vocabulary has the marks as pieces and the template names them.
    let mut chat = ChatMl::new(template);
    let close = chat.fixture.piece("</think>", USER_DEFINED, 0.0);
    let (tokenizer, template) = chat.load();
    let prompt = template.render(&four(), &options()).unwrap();
    assert_eq!(prompt.text(), "uaus|A|3");
    assert!(!template.prompt_ids(&tokenizer, &prompt).contains(&close));
    let methods = "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ '--a-'.strip('-') }} \
                   {{ 'a--'.rstrip('-') }} {{ 'a.b'.replace('.', '/') }} {{ 'abc'.find('c') }} \
                   {{ ', '.join(['a', 'b']) }} {{ {'a': 1}.get('b', 2) }} {{ 'x y'.split() }} \
                   {{ 'abc'.removeprefix('a').removesuffix('c') }}";
    assert_eq!(print(methods), "True True a a a/b 2 a, b 2 ['x', 'y'] b");
}

#[test]
fn c04_a_template_that_does_not_parse_is_reported_with_its_line() {
    let error = load_error("a\nb\n{% for %}\n");
    assert!(matches!(error, TemplateError::Syntax { line: 3, .. }), "{error}");
    assert!(error.to_string().contains("line 3"), "{error}");
    let metadata = Fixture::byte_pair(Some("qwen2"), &[]).metadata();
    let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
    let error = ChatTemplate::from_metadata(&metadata, &tokenizer).unwrap_err();
    assert_eq!(error, TemplateError::Missing);
    // A template for another vocabulary is found out, one with a few texts too many is not refused.
    let error = load_error("{{ '<|start_header_id|>' }}{{ messages[0].content }}<|eot_id|>");
    assert_eq!(error, TemplateError::Foreign { texts: "<|eot_id|>, <|start_header_id|>".to_owned() });
    let (_, template) = ChatMl::new("<|im_start|>{{ messages[0].content }}<|image|>").load();
    assert_eq!(template.missing_literals(), ["<|image|>"]);
}

#[test]
fn c05_namespaces_and_loop_controls_work_and_booleans_print_as_in_python() {
    let template = "{%- set ns = namespace(f=false) -%}{%- for m in messages -%}\
                    {%- if m.role=='assistant' -%}\
                    {%- set ns.f = true -%}{%- continue -%}{%- endif -%}{{- m.content -}}\
                    {%- if loop.last -%}!{%- endif -%}{%- endfor -%}{{- ns.f }}";
    assert_eq!(render(template, &four()).unwrap(), "Su1u2!True");
    assert_eq!(print("{{ none }} {{ false }} {{ [true, none] }}"), "None False [True, None]");
}

#[test]
fn c06_json_is_written_as_the_reference_renderer_writes_it() {
    assert_eq!(print("{{ {'b':1,'a':'é<&>'}|tojson }}"), "{\"b\": 1, \"a\": \"é<&>\"}");
    let nested = "{{ {'b':[1,2.5,{}],'a':{'c':none,'d':[true]},'e':[]}|tojson(indent=4) }}";
    // python3 -c 'import json; print(json.dumps(X, indent=4))'
    let wanted = "{\n    \"b\": [\n        1,\n        2.5,\n        {}\n    ],\n    \"a\": {\n\
                  \x20       \"c\": null,\n\
                  \x20       \"d\": [\n            true\n        ]\n    },\n    \"e\": []\n}";
    assert_eq!(print(nested), wanted);
    assert_eq!(print("{{ 'q\"\\\\\\n\\t\x01'|tojson }}"), "\"q\\\"\\\\\\n\\t\\u0001\"");
    assert_eq!(
        print("{{ {'b':1,'a':2}|tojson(sort_keys=true, separators=(',', ':')) }}"),
        "{\"a\":2,\"b\":1}"
    );
    assert_eq!(print("{{ 'é😀'|tojson(ensure_ascii=true) }}"), "\"\\u00e9\\ud83d\\ude00\"");
    assert_eq!(print("{{ '<b>&' }}"), "<b>&");
}

#[test]
fn c07_undefined_passes_filters_and_fails_only_on_attributes() {
    assert_eq!(print("{{ 'user'.title() }}{{ x|upper }}"), "User");
    assert_eq!(print("{{ x }}{% for y in x %}{% endfor %}{{ x|trim }}{{ x is defined }}"), "False");
    let error = render("\n\n{{ x.y }}", &user("u")).unwrap_err();
    assert!(matches!(error, TemplateError::Failed { line: 3, .. }), "{error}");
}

/// Refuses what Gemma's template refuses, in its words.
const STRICT: &str = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}\
    {% endif %}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}\
    {{ raise_exception('Conversation roles must alternate') }}{% endif %}{{ m.role[0] }}:{{ m.content }};\
    {% endfor %}";

fn adjusted(list: &[(Role, &str)]) -> (String, Vec<Adjustment>) {
    let (_, template) = ChatMl::new(STRICT).load();
    let prompt = template.render(&messages(list), &options()).unwrap();
    (prompt.text().to_owned(), prompt.adjustments().to_vec())
}

#[test]
fn c08_a_refused_system_message_moves_to_the_user_or_the_templates_words_are_the_error() {
    use Adjustment::{NeighboursMerged, SystemMovedToUser};
    let (text, adjustments) = adjusted(&[(Role::System, "S"), (Role::User, "u")]);
    assert_eq!((text.as_str(), &adjustments[..]), ("u:S\n\nu;", &[SystemMovedToUser][..]));
    let (text, adjustments) = adjusted(&[(Role::System, "S"), (Role::System, "T"), (Role::User, "u")]);
    assert_eq!(text, "u:S\n\nT\n\nu;");
    assert_eq!(adjustments, [NeighboursMerged, SystemMovedToUser]);
    let error = render(STRICT, &messages(&[(Role::System, "S")])).unwrap_err();
    assert_eq!(error, TemplateError::Refused { message: "System role not supported".to_owned() });
    // A template that takes system messages gets them as they are.
    assert_eq!(render("{% for m in messages %}{{ m.role[0] }}{% endfor %}", &four()).unwrap(), "suau");
}

#[test]
fn c09_equal_neighbours_merge_or_the_templates_words_are_the_error() {
    let (text, adjustments) = adjusted(&[(Role::User, "a"), (Role::User, "b")]);
    assert_eq!((text.as_str(), &adjustments[..]), ("u:a\n\nb;", &[Adjustment::NeighboursMerged][..]));
    for refused in [
        messages(&[(Role::Assistant, "a"), (Role::User, "b")]),
        messages(&[(Role::User, "a"), (Role::Tool, "t"), (Role::Assistant, "b")]),
        messages(&[(Role::User, "a"), (Role::Assistant, "b"), (Role::Tool, "t")]),
    ] {
        // The tool message is no user message, which is what this template wants after an answer.
        match render(STRICT, &refused) {
            Err(TemplateError::Refused { message }) => {
                assert_eq!(message, "Conversation roles must alternate")
            }
            other => assert!(other.is_ok_and(|text| text.starts_with("u:a;t:t;")), "{refused:?}"),
        }
    }
    assert_eq!(render(STRICT, &[]).unwrap_err(), TemplateError::NoMessages);
}

#[test]
fn c10_arguments_of_tool_calls_render_alike_in_both_spellings() {
    let call = |arguments: serde_json::Value| {
        let mut message = ChatMessage::new(Role::Assistant, "");
        message.reasoning_content = Some("because".to_owned());
        message.tool_calls = vec![ToolCall { id: Some("c1".to_owned()), name: "f".to_owned(), arguments }];
        vec![message]
    };
    let wants_object = "{% for c in messages[0].tool_calls %}{{ c.function.name }}\
                        {{ c.function.arguments|tojson }}\
                        {% for k in c.function.arguments %}{{ k }}{% endfor %}{% endfor %}";
    let wants_text =
        "{% for c in messages[0].tool_calls %}{{ 'x' + c.function.arguments + 'y' }}{% endfor %}";
    for same in [json!("{\"a\":1}"), json!({"a": 1}), json!(" {\"a\" : 1} ")] {
        assert_eq!(render(wants_object, &call(same.clone())).unwrap(), "f{\"a\": 1}a");
        assert_eq!(render(wants_text, &call(same)).unwrap(), "x{\"a\":1}y");
    }
    for empty in [json!(""), json!({}), json!(null), json!("{}")] {
        assert_eq!(render(wants_object, &call(empty.clone())).unwrap(), "f{}");
        assert_eq!(render(wants_text, &call(empty)).unwrap(), "x{}y");
    }
    assert_eq!(render("{{ messages[0].reasoning_content }}", &call(json!({}))).unwrap(), "because");
}

#[test]
fn c11_missing_and_empty_content_render_alike() {
    let template = "{{ '<' + messages[0].content + '>' }}{{ messages[0].tool_calls|length }}";
    let mut message = ChatMessage::new(Role::Assistant, "");
    message.tool_calls = vec![ToolCall { id: None, name: "f".to_owned(), arguments: json!({}) }];
    let empty = render(template, &[message.clone()]).unwrap();
    message.content = None;
    assert_eq!(render(template, &[message]).unwrap(), empty);
    assert_eq!(empty, "<>1");
}

#[test]
fn c12_hostile_templates_are_stopped_within_a_second() {
    let nested =
        (0..200).map(|i| format!("{{% macro m{i}() %}}")).collect::<String>() + &"{% endmacro %}".repeat(200);
    let calls = "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}";
    let wide = "{{ [[[[1]]]]|tojson(indent=999999999) }}";
    // A value that grows from `start` by `step`, `times` times.
    let grow = |start: &str, times: u32, step: &str, end: &str| {
        format!(
            "{{% set ns = namespace(s={start}) %}}{{% for i in range({times}) %}}\
             {{% set ns.s = {step} %}}{{% endfor %}}{end}"
        )
    };
    let hostile = [
        "{% for i in range(99999999) %}x{% endfor %}".to_owned(),
        "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}".to_owned(),
        "{{ 'a'*10**9 }}".to_owned(),
        "{{ ('a'*9999999)|length }}{{ ('a'*9999999)*20 }}".to_owned(),
        grow("'ab'", 60, "ns.s + ns.s", "{{ ns.s }}"),
        grow("['ab']", 60, "[ns.s, ns.s]", "{{ ns.s|tojson }}"),
        grow("['ab']", 60, "[ns.s, ns.s]", "{{ ns.s }}"),
        grow("[]", 99_999, "[ns.s]", "{{ ns.s|tojson }}"),
        grow("[]", 99_999, "[ns.s]", "{{ ns.s }}"),
        "{{ 'a'.replace('', 'b' * 100000).replace('b', 'c' * 100000) }}".to_owned(),
        "{{ strftime_now('%F' * 9999999) }}".to_owned(),
        format!("{{% for i in range(99999) %}}{wide}{{% endfor %}}"),
        calls.to_owned(),
        nested,
        format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000)),
        "x".repeat(20 << 20),
        "{% include '/etc/hostname' %}".to_owned(),
    ];
    for template in &hostile {
        let start = Instant::now();
        let metadata = ChatMl::new(template).fixture.metadata();
        let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
        let outcome = ChatTemplate::from_metadata(&metadata, &tokenizer)
            .and_then(|template| template.render(&user("u"), &options()));
        let name: String = template.chars().take(60).collect();
        assert!(start.elapsed() < Duration::from_secs(1), "{name} takes {:?}", start.elapsed());
        let error = outcome.map(|prompt| prompt.text().len()).expect_err(&name);
        assert!(!error.to_string().is_empty());
    }
    assert_eq!(
        load_error(&"x".repeat(20 << 20)),
        TemplateError::TooLarge { found: 20 << 20, limit: TEMPLATE_BYTES_MAX }
    );
    // The next good template works, and so does a long conversation.
    let long = user(&"word ".repeat(200_000));
    assert!(render(CHATML, &long).unwrap().len() > 1_000_000);
    let turns: Vec<ChatMessage> = (0..1000).flat_map(|_| four()).collect();
    assert!(render(CHATML, &turns).is_ok());
    let too_long = user(&"x".repeat(PROMPT_BYTES_MAX));
    assert_eq!(
        render(CHATML, &too_long).unwrap_err(),
        TemplateError::OutputTooLong { limit: PROMPT_BYTES_MAX }
    );
}

/// All that a splitter says of a reply in pieces of `step` bytes, joined: reasoning, then content.
fn split(open: Option<&'static str>, reply: &str, step: usize) -> (String, String) {
    let mut splitter = ReasoningSplitter::new(open);
    let (mut reasoning, mut content) = (String::new(), String::new());
    let mut parts = Vec::new();
    let characters: Vec<char> = reply.chars().collect();
    for piece in characters.chunks(step) {
        parts.extend(splitter.push(&piece.iter().collect::<String>()));
    }
    parts.extend(splitter.finish());
    for part in parts {
        match part {
            ReplyPart::Reasoning(text) => reasoning.push_str(&text),
            ReplyPart::Content(text) => content.push_str(&text),
            ReplyPart::Call(_) => unreachable!("no function was offered"),
        }
    }
    (reasoning, content)
}

#[test]
fn c13_whether_a_reply_starts_in_reasoning_is_read_off_the_prompt() {
    let template = "{{ messages[0].content }}{% if add_generation_prompt %}\n\
                    {% if enable_thinking %}<think>\n{% else %}<think>\n\n</think>\n\n{% endif %}{% endif %}";
    let (_, template) = ChatMl::new(template).load();
    let open = |think, add_generation_prompt| {
        let options = ChatOptions { think, add_generation_prompt, ..options() };
        template.render(&user("say <think>"), &options).unwrap().open_reasoning()
    };
    assert_eq!(open(Think::On, true), Some("</think>"));
    assert_eq!(open(Think::Off, true), None);
    assert_eq!(open(Think::On, false), None, "the text of the user opens nothing");
    let text = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    for step in 1..9 {
        assert_eq!(split(None, "Hi", step), text("", "Hi"));
        assert_eq!(split(None, "use </think> tag", step), text("", "use </think> tag"));
        assert_eq!(split(None, "use <think> tag", step), text("", "use <think> tag"));
        assert_eq!(split(Some("</think>"), "a </thi b</think>\n\nHi", step), text("a </thi b", "Hi"));
        assert_eq!(split(Some("</think>"), "a</think>use </think> tag", step), text("a", "use </think> tag"));
        assert_eq!(split(Some("</think>"), "never closed </th", step), text("never closed </th", ""));
        assert_eq!(split(None, "\n<think>a</think>b", step), text("a", "b"));
        assert_eq!(split(None, "<thin ice", step), text("", "<thin ice"));
    }
}

#[test]
fn c14_turn_two_shares_all_it_can_with_turn_one() {
    // Marks of an earlier turn are dropped when it is rendered again: the prefix ends where they began.
    let template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                    {% if add_generation_prompt %}<|im_start|>assistant\n{% if not enable_thinking %}\
                    <think>\n\n</think>\n\n\
                    {% endif %}{% endif %}";
    let (tokenizer, template) = ChatMl::new(template).load();
    let ids = |messages: &[ChatMessage]| {
        template.prompt_ids(&tokenizer, &template.render(messages, &options()).unwrap())
    };
    let first = ids(&user("hi!"));
    let second = ids(&messages(&[(Role::User, "hi!"), (Role::Assistant, "hi!"), (Role::User, "more")]));
    let common = first.iter().zip(&second).take_while(|(a, b)| a == b).count();
    let lost = tokenizer.decode(&first[common..], TextPosition::Continuation);
    assert_eq!(lost, "<think>\n\n</think>\n\n");
}

#[test]
fn c15_blocks_leave_no_stray_line_breaks() {
    assert_eq!(print("{% if true %}\n  {% set a=1 %}\nX{% endif %}"), "X");
    assert_eq!(print("  {% if true %}\nX\n  {% endif %}\nY\n"), "X\nY");
    assert_eq!(print("{# note #}\nX"), "X");
}
