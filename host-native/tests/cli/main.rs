//! The built command line on a tiny synthetic model: what scripts rely on, and how it refuses.

mod everyday;
mod inspect;
mod memory;
mod sampling;
mod silent;
mod speculation;
mod streaming;
mod thinking;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fanlight_messages::TensorType;
use fanlight_tests::gguf::GgufFile;
use fanlight_tests::synth::{Architecture, tiny};
use serde_json::Value;

fn model() -> GgufFile {
    tiny(Architecture::Qwen2, TensorType::Q4_0, 7).build().unwrap()
}

/// Writes a file for one test.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn fanlight(command: &str, model: &Path, options: &[&str]) -> Output {
    let mut fanlight = Command::new(env!("CARGO_BIN_EXE_fanlight"));
    fanlight.arg(command).arg(model).args(options).output().unwrap()
}

/// Standard output of a run that must succeed.
fn stdout(command: &str, model: &Path, options: &[&str]) -> String {
    let output = fanlight(command, model, options);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command} {options:?}: {:?}: {stderr}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Every line as JSON.
fn json_lines(command: &str, model: &Path, options: &[&str]) -> Vec<Value> {
    let text = stdout(command, model, options);
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

/// The one line with which a refused run ends; before it only a driver may have spoken.
fn refusal(command: &str, model: &Path, options: &[&str]) -> String {
    let output = fanlight(command, model, options);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let line = stderr.lines().last().unwrap_or_default();
    assert!(line.starts_with("fanlight: ") && line.len() < 400, "{stderr}");
    assert_eq!(stderr.matches("fanlight: ").count(), 1, "{stderr}");
    line.to_owned()
}

const PROMPT: &str = "The keeper of the lighthouse wrote to the sea, and the sea wrote back";

fn run_json(model: &Path, options: &[&str]) -> Vec<Value> {
    let always = ["--raw", "--json", "-p", PROMPT, "-n", "24", "--context", "512"];
    json_lines("run", model, &[&always, &greedy(options)[..]].concat())
}

/// The same options, with the most likely token each time where none of them says how tokens are drawn.
fn greedy<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let is_drawn = options.contains(&"--temperature");
    let temperature: &[&str] = if is_drawn { &[] } else { &["--temperature", "0"] };
    [options, temperature].concat()
}

/// What is said of options that cannot be used: before anything is opened, and with an exit code of its own.
fn usage_error(options: &[&str]) -> String {
    let nowhere = Path::new(env!("CARGO_TARGET_TMPDIR")).join("never-opened.gguf");
    let output = fanlight("run", &nowhere, options);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{options:?}: {stderr}");
    assert!(!stderr.contains("cannot open"), "{stderr}");
    stderr
}

#[test]
fn run_prints_the_same_reply_for_every_window_and_chunk() {
    let path = file("run.gguf", &model().to_bytes());
    let lines = run_json(&path, &[]);
    let last = lines.last().unwrap();
    let prompt_ids = last["prompt_ids"].as_array().unwrap();
    let output_ids = last["output_ids"].as_array().unwrap();
    assert!(prompt_ids.len() > 7, "more than one chunk of 7: {last}");
    assert!(output_ids.len() > 4 && output_ids.len() <= 24, "more than one window of 4: {last}");
    assert!(["stop", "length"].contains(&last["finish"].as_str().unwrap()), "{last}");
    let hash = last["logits_hash"].as_str().unwrap();
    assert!(hash.len() == 8 && u32::from_str_radix(hash, 16).unwrap() != 0, "{last}");

    // What streamed is what the last line sums up.
    let streamed = || lines.iter().filter(|line| line.get("ids").is_some());
    let ids: Vec<&Value> = streamed().flat_map(|line| line["ids"].as_array().unwrap()).collect();
    assert_eq!(ids, output_ids.iter().collect::<Vec<_>>());
    let text: String = streamed().map(|line| line["text"].as_str().unwrap()).collect();
    assert!(last["text"].as_str().unwrap().starts_with(&text), "{last}");

    let stats = &last["stats"];
    assert_eq!(stats["prefill_tokens"], prompt_ids.len());
    assert_eq!(stats["decode_tokens"], output_ids.len() - 1);
    for key in ["prefill_ms", "decode_ms_per_token", "dispatches_per_step", "gpu_peak_bytes"] {
        assert!(stats[key].as_f64().unwrap() > 0.0, "{key}: {stats}");
    }
    assert!(stats["adapter"]["software"].is_boolean(), "{stats}");

    for options in [["--window", "1"], ["--window", "2"], ["--chunk", "1"], ["--chunk", "7"]] {
        let lines = run_json(&path, &options);
        let other = lines.last().unwrap();
        for key in ["finish", "prompt_ids", "output_ids", "text", "logits_hash"] {
            assert_eq!(other[key], last[key], "{key} with {options:?}");
        }
    }
}

#[test]
fn a_prompt_longer_than_the_context_is_refused_with_both_numbers() {
    let path = file("long.gguf", &model().to_bytes());
    let prompt = "sea ".repeat(2000);
    let line = refusal("run", &path, &["--raw", "-p", &prompt, "--context", "256"]);
    let numbers: Vec<u64> =
        line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    let [prompt_tokens, 256] = numbers[..] else { panic!("{line}") };
    assert!(prompt_tokens > 256, "{line}");
}

#[test]
fn inspect_prints_the_plan_and_its_sum() {
    let path = file("inspect.gguf", &model().to_bytes());
    let text = stdout("inspect", &path, &["--context", "512"]);
    assert!(text.contains("general.architecture = qwen2"), "{text}");
    let plan = text.split("gpu plan: context 512").nth(1).unwrap_or_else(|| panic!("no plan: {text}"));
    let bytes = |line: &str| -> Option<u64> {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.iter().rev().find_map(|word| word.replace([',', '_'], "").parse().ok())
    };
    let (total, parts): (Vec<&str>, Vec<&str>) =
        plan.lines().skip(1).filter(|line| bytes(line).is_some()).partition(|line| line.contains("total"));
    assert_eq!(total.len(), 1, "{plan}");
    assert!(parts.len() > 5, "{plan}");
    assert_eq!(bytes(total[0]), Some(parts.iter().filter_map(|line| bytes(line)).sum()), "{plan}");
}

#[test]
fn unusable_files_are_refused_in_one_line() {
    let whole = model().to_bytes();
    let mut unknown = model();
    unknown.set("general.architecture", "perceptron");
    let cases = [
        ("truncated.gguf", &whole[..whole.len() - 1000], "truncated"),
        ("header.gguf", &whole[..100], "header"),
        ("empty.gguf", &[][..], "empty"),
        ("unknown.gguf", &unknown.to_bytes(), "perceptron"),
    ];
    for (name, bytes, wanted) in cases {
        let line = refusal("run", &file(name, bytes), &["--raw", "-p", "sea"]);
        assert!(line.contains(name) && line.contains(wanted), "{line}");
        println!("{line}");
    }
    let missing = Path::new(env!("CARGO_TARGET_TMPDIR")).join("missing.gguf");
    for command in ["run", "inspect", "bench", "verify"] {
        let options: &[&str] = if command == "run" { &["-p", "sea"] } else { &[] };
        let line = refusal(command, &missing, options);
        assert!(line.contains("missing.gguf"), "{line}");
    }
    let output = fanlight("run", &missing, &["--json", "-p", "sea"]);
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(line["error"].as_str().unwrap().contains("missing.gguf"), "{line}");
}

#[test]
fn verify_finds_no_difference_in_what_a_model_uses() {
    let path = file("verify.gguf", &model().to_bytes());
    let lines = json_lines("verify", &path, &["--json"]);
    assert!(lines[0]["adapter"]["name"].is_string(), "{}", lines[0]);
    let last = lines.last().unwrap();
    let shapes = &lines[1..lines.len() - 1];
    assert!(shapes.iter().any(|line| line["shape"].as_str().unwrap().starts_with("Q4_0 ")), "{shapes:?}");
    assert!(shapes.iter().any(|line| line["shape"].as_str().unwrap().starts_with("head 16")), "{shapes:?}");
    let compared: u64 = shapes.iter().map(|line| line["compared"].as_u64().unwrap()).sum();
    assert_eq!((last["compared"].as_u64(), last["differ"].as_u64()), (Some(compared), Some(0)));
}

#[test]
fn bench_measures_every_figure() {
    let path = file("bench.gguf", &model().to_bytes());
    let lines = json_lines("bench", &path, &["--context", "256", "--json"]);
    let load = &lines[0];
    let phases = ["open_ms", "create_ms", "upload_ms", "compile_ms"];
    let sum: f64 = phases.iter().map(|phase| load[*phase].as_f64().unwrap()).sum();
    assert!((load["load_ms"].as_f64().unwrap() - sum).abs() < 0.01, "{load}");
    assert!(load["pipelines"].as_u64().unwrap() > 5, "{load}");
    let with = |key: &str| -> Vec<&Value> { lines.iter().filter(|line| line.get(key).is_some()).collect() };
    let above_zero = |key: &str, figure: &str, count: usize| {
        let found = with(key);
        assert_eq!(found.len(), count, "{key}");
        assert!(found.iter().all(|line| line[figure].as_f64().unwrap() > 0.0), "{found:?}");
    };
    above_zero("prefill_tokens", "ms", 1);
    above_zero("window", "ms_per_token", 4);
    above_zero("bytes_per_s", "file_bytes_per_s", 1);
    above_zero("ratio_to_one", "dispatches", 6);
    let buckets: Vec<_> = with("ratio_to_one").iter().map(|line| line["tokens"].as_u64().unwrap()).collect();
    assert_eq!(buckets, [1, 2, 4, 8, 16, 32]);
    assert!(with("pipeline").len() > 5);
}
