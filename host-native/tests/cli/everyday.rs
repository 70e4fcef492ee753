//! What everyday use of the command line relies on.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use fanlight_tests::synth::{Scripted, Typed};
use serde_json::Value;

use super::{fanlight, file, json_lines, model, refusal, usage_error};

const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// A model that answers "Hi".
pub fn greeter(template: &str) -> Scripted {
    let specials =
        [("<|endoftext|>", Typed::Control), ("<|im_start|>", Typed::Control), ("<|im_end|>", Typed::Control)];
    let mut model = Scripted::new(template, &specials);
    model.says("\n", &["H", "i", "<|im_end|>"]);
    model
}

/// The ids of a run's prompt, which are its bytes where no special token stands.
fn prompt_ids(path: &Path, options: &[&str], stdin: &[u8]) -> Vec<u64> {
    let mut fanlight = Command::new(env!("CARGO_BIN_EXE_fanlight"));
    fanlight.arg("run").arg(path).args(["--raw", "--json", "-n", "1", "--context", "256"]).args(options);
    let piped = fanlight.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = piped.unwrap();
    child.stdin.take().unwrap().write_all(stdin).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap();
    last["prompt_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
}

/// Seen: `-p -` was answered literally, and piped text was dropped.
#[test]
fn l02_text_comes_from_an_argument_a_file_or_a_pipe() {
    let path = file("input.gguf", &greeter(CHATML).build().unwrap().to_bytes());
    let bytes = |text: &str| -> Vec<u64> { text.bytes().map(u64::from).collect() };
    let text = file("input.txt", b"from a file\n");
    let text = text.to_str().unwrap();
    assert_eq!(prompt_ids(&path, &["-p", "-"], b"piped\n"), bytes("piped"));
    assert_eq!(prompt_ids(&path, &[], b"piped"), bytes("piped"));
    assert_eq!(prompt_ids(&path, &["-f", text], b""), bytes("from a file"));
    assert_eq!(prompt_ids(&path, &["-p", "Read:", "-f", text], b""), bytes("Read:\n\nfrom a file"));
    assert_eq!(prompt_ids(&path, &["-p", "Read:", "-f", "-"], b"piped"), bytes("Read:\n\npiped"));
    let line = refusal("run", &path, &["-f", "/no/such/file"]);
    assert!(line.contains("/no/such/file"), "{line}");
}

/// Seen: greedy decoding repeated one sentence and was cut at 256 tokens without a word.
#[test]
fn l04_tokens_are_drawn_and_a_limit_that_ends_a_reply_is_told() {
    let path = file("defaults.gguf", &model().to_bytes());
    let run = |options: &[&str]| {
        let output = fanlight("run", &path, &[&["--raw", "-p", "sea", "--context", "256"], options].concat());
        String::from_utf8(output.stderr).unwrap()
    };
    let notes = run(&["-n", "3"]);
    assert!(notes.contains("limit of 3 tokens (-n N") && notes.contains("seed "), "{notes}");
    // Banned, the end never comes: the context is what ends the reply.
    let end = format!("{}=-10000", model().get("tokenizer.ggml.eos_token_id").unwrap().as_u64().unwrap());
    let notes = run(&["--temperature", "0", "--logit-bias", &end]);
    assert!(notes.contains("the context of 256 tokens is full") || notes.contains("| reply"), "{notes}");
    assert!(!notes.contains("seed"), "{notes}");
}

/// Seen: a FIFO as model hung for ever.
#[test]
#[cfg(unix)]
fn l06_what_is_no_file_is_refused_at_once() {
    let pipe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pipe.gguf");
    let _ = std::fs::remove_file(&pipe);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(refusal("run", &pipe, &["-p", "sea"]).contains("a pipe or a device"));
    assert!(refusal("inspect", Path::new("/tmp"), &[]).contains("a folder"));
}

/// Seen: values out of range were judged after the load, with exit code 1, or not at all.
#[test]
fn l07_options_are_judged_before_anything_is_opened() {
    let many = ["--stop", "a"].repeat(17);
    for options in [
        &["-n", "0"][..],
        &["-n", "40000"],
        &["--window", "3"],
        &["--stop", ""],
        &many,
        &["--chunk", "0"],
        &["--context", "0"],
        &["--width", "3"],
    ] {
        usage_error(&[&["-p", "sea"], options].concat());
    }
    let replay = fanlight("replay", Path::new("none.jsonl"), &["--width", "0"]);
    assert_eq!(replay.status.code(), Some(2), "{replay:?}");
}

/// Seen: a full disk behind the standard output gave exit code 0 and no message.
#[test]
#[cfg(target_os = "linux")]
fn n13_an_answer_that_cannot_be_written_is_a_failure() {
    let path = file("full.gguf", &greeter(CHATML).build().unwrap().to_bytes());
    for options in [&["run", "-p", "Hi", "--context", "256"][..], &["inspect"], &["inspect", "--json"]] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut fanlight = Command::new(env!("CARGO_BIN_EXE_fanlight"));
        let output = fanlight.arg(options[0]).arg(&path).args(&options[1..]).stdout(full).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{options:?}: {stderr}");
        assert!(stderr.contains("cannot write the output"), "{options:?}: {stderr}");
    }
}

/// Seen: the date in a prompt was that of UTC.
#[test]
fn n15_the_date_in_a_prompt_is_local() {
    let template = "<|im_start|>{{ strftime_now('%H') }}{{ messages[0].content }}\n";
    let path = file("date.gguf", &greeter(template).build().unwrap().to_bytes());
    let hour = |zone: &str| -> Vec<u8> {
        let mut fanlight = Command::new(env!("CARGO_BIN_EXE_fanlight"));
        fanlight.arg("run").arg(&path).args(["-p", "x", "--json", "-n", "1", "--context", "256"]);
        let output = fanlight.env("TZ", zone).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap();
        let ids = last["prompt_ids"].as_array().unwrap();
        ids[1..3].iter().map(|id| id.as_u64().unwrap() as u8).collect()
    };
    // Eleven hours apart, whatever the time is now.
    assert_ne!(hour("Etc/GMT+5"), hour("Etc/GMT-6"));
}

#[test]
fn l10_an_error_names_the_option_that_helps() {
    let path = file("hints.gguf", &greeter(CHATML).build().unwrap().to_bytes());
    let long = "sea ".repeat(300);
    let line = refusal("run", &path, &["-p", &long, "--context", "256"]);
    assert!(line.contains("--context N"), "{line}");
    let mut bare = greeter(CHATML);
    bare.set("tokenizer.chat_template", "");
    let mut bare = bare.build().unwrap();
    bare.remove("tokenizer.chat_template");
    let path = file("hints-bare.gguf", &bare.to_bytes());
    let line = refusal("run", &path, &["-p", "Hi", "--context", "256"]);
    assert!(line.contains("no chat template") && line.contains("--raw"), "{line}");
    let lines = json_lines("run", &path, &["--raw", "-p", "\n", "--json", "--context", "256"]);
    assert_eq!(lines.last().unwrap()["text"], "Hi");
}
