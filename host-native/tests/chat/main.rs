//! `fanlight chat` on a tiny synthetic model, its lines from a pipe: commands, a reply given again, files.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use fanlight_messages::TensorType;
use fanlight_tests::synth::{Architecture, tiny};
use serde_json::{Value, json};

/// What a chat of these lines prints, on both outputs.
fn chat(model: &Path, options: &[&str], lines: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fanlight"));
    command.arg("chat").arg(model).args(["--context", "1024", "-n", "8", "--no-history"]).args(options);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{err}");
    (out, err)
}

#[test]
fn a_chat_goes_on_and_is_kept_in_a_file() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let model = folder.join("chat.gguf");
    let bytes = tiny(Architecture::Qwen2, TensorType::Q4_0, 7).build().unwrap().to_bytes();
    std::fs::write(&model, bytes).unwrap();
    let (saved, read) = (folder.join("chat.json"), folder.join("chat.txt"));
    std::fs::write(&read, "The sea.").unwrap();
    let save = format!("/save {}", saved.display());
    let lines =
        ["/stats", "", "one", "/regen", "/cleer", "\"\"\"two", "lines\"\"\"", &save, "/stats", "/exit"];
    let (out, err) = chat(&model, &["--system", "Be brief.", "-f", read.to_str().unwrap()], &lines);
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&saved).unwrap()).unwrap();
    let messages = kept["messages"].as_array().unwrap();
    let said: Vec<&Value> = messages.iter().map(|message| &message["role"]).collect();
    assert_eq!(said, ["system", "user", "assistant", "user", "assistant"]);
    assert_eq!(messages[0]["content"], "Be brief.");
    assert_eq!(messages[1]["content"], "The sea.\n\none");
    assert_eq!(messages[3]["content"], "two\nlines");
    // Greedy: given again, a reply is the same, and both were printed.
    let first = messages[2]["content"].as_str().unwrap();
    assert!(!first.is_empty());
    assert_eq!(out.matches(&format!("{first}\n")).count(), 2, "{out:?}");
    assert!(err.contains("nothing was said yet") && err.contains("/cleer is not a command"), "{err}");

    // The same conversation from its file ends in the same words.
    let load = format!("/load {}", saved.display());
    let (out, err) = chat(&model, &[], &[&load, "/regen", "/load nowhere.json", "/clear", "/regen"]);
    let last = json!(out.trim_end_matches('\n'));
    assert_eq!(last, messages[4]["content"].as_str().unwrap().trim_end_matches('\n'));
    assert!(err.contains("4 messages") && err.contains("nowhere.json"), "{err}");
}
