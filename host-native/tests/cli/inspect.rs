//! `inspect` says what `run` would: by its exit code, as text and as JSON.

use fanlight_messages::TensorType;
use fanlight_tests::gguf::{GgufFile, TensorPlan};

use super::{fanlight, file, json_lines, model};

fn inspect(name: &str, model: &GgufFile, options: &[&str]) -> (Option<i32>, String) {
    let output = fanlight("inspect", &file(name, &model.to_bytes()), options);
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), text)
}

/// Seen: "no gpu plan" and an unusable tokenizer with exit code 0, and nothing of the template.
#[test]
fn l08_the_exit_code_is_that_of_run_and_tokenizer_and_template_are_read() {
    let (code, text) = inspect("inspect-good.gguf", &model(), &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("chat template: usable"), "{text}");

    let mut broken = model();
    broken.set("tokenizer.chat_template", "{% for %}");
    let (code, text) = inspect("inspect-template.gguf", &broken, &[]);
    assert_eq!(code, Some(0), "plain text can be continued: {text}");
    assert!(text.contains("chat template: none") && text.contains("does not parse"), "{text}");

    let mut unknown = model();
    unknown.set("tokenizer.ggml.pre", "future-model");
    let (code, text) = inspect("inspect-tokenizer.gguf", &unknown, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("unusable tokenizer") && text.contains("future-model"), "{text}");

    let (code, text) = inspect("inspect-budget.gguf", &model(), &["--budget-mib", "1"]);
    assert_eq!(code, Some(1), "{text}");
}

#[test]
fn l08_json_and_tensors_for_scripts() {
    let path = file("inspect-json.gguf", &model().to_bytes());
    let lines = json_lines("inspect", &path, &["--json", "--tensors", "--context", "512"]);
    let [line] = &lines[..] else { panic!("one object: {lines:?}") };
    assert_eq!((&line["architecture"], &line["plan"]["context"]), (&"qwen2".into(), &512.into()), "{line}");
    assert!(line["problem"].is_null() && line["warnings"].as_array().unwrap().is_empty(), "{line}");
    let tensors = line["tensors"].as_array().unwrap();
    assert_eq!(tensors.len(), model().tensors.len());
    assert!(tensors.iter().any(|tensor| tensor["name"] == "blk.0.attn_q.weight"), "{line}");
}

/// Seen: names with escape sequences reached the terminal from `inspect` and from errors.
#[test]
fn l09_what_a_file_says_commands_no_terminal() {
    let mut hostile = model();
    hostile.set("general.name", "good\u{1b}]0;PWNED\u{7}\u{1b}[2Jred");
    let plan = TensorPlan::new("blk.0.\u{1b}]52;c;cHduZWQ=\u{7}x", 1, 32, TensorType::F32).unwrap();
    hostile.push(plan, vec![0; 128]).unwrap();
    for options in [&[][..], &["--tensors"]] {
        let (_, text) = inspect("inspect-hostile.gguf", &hostile, options);
        assert!(text.contains("PWNED") && !text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    }
    let mut unknown = model();
    unknown.set("general.architecture", "x\u{1b}[31my");
    let (_, text) = inspect("inspect-hostile-error.gguf", &unknown, &[]);
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

/// Seen: adapters, matrices and projectors were answered with "convert the file again".
#[test]
fn l11_files_that_go_with_models_are_named() {
    for (kind, wanted) in
        [("adapter", "an adapter"), ("imatrix", "an importance matrix"), ("mmproj", "a projector")]
    {
        let mut companion = model();
        companion.set("general.type", kind);
        let (code, text) = inspect("inspect-companion.gguf", &companion, &[]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(wanted) && text.contains("not a model"), "{text}");
    }
    let vocabulary = GgufFile { tensors: Vec::new(), ..model() };
    let (code, text) = inspect("inspect-vocabulary.gguf", &vocabulary, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("a vocabulary without weights"), "{text}");
}

/// Seen: a tokenizer in another library's form, above 4 MiB, made the file "damaged".
#[test]
fn l12_a_long_tokenizer_in_another_form_is_passed_over() {
    let mut long = model();
    long.set("tokenizer.huggingface.json", &*format!("{{{}}}", " ".repeat(9 << 20)));
    let (code, text) = inspect("inspect-long.gguf", &long, &[]);
    assert_eq!(code, Some(0), "{text}");
}
