//! The memory file: a second run drafts from the first one's reply and says the same; what is no store is
//! reported and replaced; two runs at a time lose nothing.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{PROMPT, fanlight, file, greedy, json_lines, model, refusal};

fn run(model: &Path, memory: &Path, prompt: &str, more: &[&str]) -> Value {
    let memory = memory.to_str().unwrap();
    let always = ["--raw", "--json", "-p", prompt, "-n", "24", "--context", "512", "--memory", memory];
    json_lines("run", model, &[&always, &greedy(more)[..]].concat()).pop().unwrap()
}

fn fresh(name: &str) -> PathBuf {
    let path = file(name, b"");
    std::fs::remove_file(&path).unwrap();
    path
}

#[test]
fn a_second_run_drafts_from_the_first_and_says_the_same() {
    let (path, memory) = (file("memory.gguf", &model().to_bytes()), fresh("memory.store"));
    let way = ["--width", "8", "--temperature", "1.5", "--seed", "3"];
    let first = run(&path, &memory, PROMPT, &way);
    assert_eq!(first["memory_tokens"], 0, "{first}");
    let second = run(&path, &memory, PROMPT, &way);
    assert!(second["memory_tokens"].as_u64().unwrap() > 8, "{second}");
    for key in ["finish", "output_ids", "text", "logits_hash"] {
        assert_eq!(second[key], first[key], "{key}");
    }
    let steps = |line: &Value| line["stats"]["steps"].as_u64().unwrap();
    assert!(steps(&second) < steps(&first), "{} and {} steps", steps(&first), steps(&second));
    let forgotten = run(&path, &memory, PROMPT, &[&way[..], &["--forget-memory"]].concat());
    assert_eq!((&forgotten["memory_tokens"], steps(&forgotten)), (&Value::from(0), steps(&first)));
}

#[test]
fn a_damaged_file_is_reported_and_replaced() {
    let path = file("memory-bad.gguf", &model().to_bytes());
    let memory = fresh("memory-bad.store");
    let options = ["--raw", "-p", "sea", "-n", "8", "--memory", memory.to_str().unwrap()];
    let notes = || String::from_utf8(fanlight("run", &path, &options).stderr).unwrap();
    assert!(!notes().contains("session memory"));
    let mut bytes = std::fs::read(&memory).unwrap();
    bytes.pop();
    std::fs::write(&memory, bytes).unwrap();
    let stderr = notes();
    assert!(stderr.contains("session memory is damaged") && stderr.contains("begun anew"), "{stderr}");
    assert!(!notes().contains("session memory"));
}

/// Seen: `--memory` with a model's own file left 72 bytes of it, with exit code 0.
#[test]
fn l01_a_file_that_is_no_memory_is_refused_and_left_as_it_is() {
    let path = file("memory-foreign.gguf", &model().to_bytes());
    let before = std::fs::read(&path).unwrap();
    let line = refusal("run", &path, &["--raw", "-p", "sea", "-n", "2", "--memory", path.to_str().unwrap()]);
    assert!(line.contains("is not a session memory"), "{line}");
    assert!(std::fs::read(&path).unwrap() == before, "the model was written over");
}

/// A file that cannot be read or written costs the memory, never the reply.
#[test]
fn a_file_out_of_reach_is_reported_and_the_reply_comes() {
    let path = file("memory-reach.gguf", &model().to_bytes());
    let folder = path.parent().unwrap();
    let nowhere = folder.join("no-such-folder").join("memory.store");
    for (memory, wanted) in [(folder, "cannot be read"), (nowhere.as_path(), "cannot be written")] {
        let options = ["--raw", "-p", "sea", "-n", "8", "--memory", memory.to_str().unwrap()];
        let output = fanlight("run", &path, &options);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{stderr}");
        assert!(stderr.contains(wanted), "{stderr}");
    }
}

#[test]
fn runs_at_the_same_time_keep_each_others_replies() {
    let (path, memory) = (file("memory-two.gguf", &model().to_bytes()), fresh("memory-two.store"));
    std::thread::scope(|scope| {
        for prompt in ["sea", "the lamp burns"] {
            let (path, memory) = (&path, &memory);
            scope.spawn(move || run(path, memory, prompt, &[]));
        }
    });
    let alone = |prompt: &str| {
        let memory = fresh("memory-alone.store");
        run(&path, &memory, prompt, &[]);
        run(&path, &memory, "x", &[])["memory_tokens"].as_u64().unwrap()
    };
    let both = run(&path, &memory, "x", &[])["memory_tokens"].as_u64().unwrap();
    assert_eq!(both, alone("sea") + alone("the lamp burns"));
}
