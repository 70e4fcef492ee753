//! What computes: the processor gives one reply on any number of threads, and `auto` never takes a driver
//! that computes on the processor in place of a GPU.

use serde_json::Value;

use super::{PROMPT, file, model, refusal, run_json};

fn last_line(name: &str, options: &[&str]) -> (Value, Value) {
    let path = file(name, &model().to_bytes());
    let mut lines = run_json(&path, options);
    let last = lines.pop().unwrap();
    (lines.swap_remove(0), last)
}

#[test]
fn the_processor_gives_one_reply_on_any_number_of_threads() {
    let (loaded, one) = last_line("cpu.gguf", &["--device", "cpu", "--threads", "1", "--width", "off"]);
    assert_eq!(loaded["adapter"]["backend"], "cpu", "{loaded}");
    assert_eq!(loaded["adapter"]["software"], false, "{loaded}");
    assert!(one["output_ids"].as_array().unwrap().len() > 4, "{one}");
    for (threads, width, kv) in [("2", "off", "q8"), ("3", "8", "q8"), ("2", "auto", "q8")] {
        let options = ["--device", "cpu", "--threads", threads, "--width", width, "--kv", kv];
        let (_, other) = last_line("cpu.gguf", &options);
        for key in ["output_ids", "text", "logits_hash", "finish"] {
            assert_eq!(one[key], other[key], "{key} with {threads} threads, width {width}");
        }
    }
}

#[test]
fn auto_leaves_a_software_driver_alone() {
    // Where this runs on a machine with a GPU, that is what auto takes.
    let (loaded, _) = last_line("auto-device.gguf", &["--device", "auto"]);
    assert_eq!(loaded["adapter"]["software"], false, "{loaded}");
}

#[test]
fn what_a_device_cannot_do_is_refused_with_what_can() {
    let path = file("cpu-budget.gguf", &model().to_bytes());
    let line = refusal("run", &path, &["-p", PROMPT, "--device", "cpu", "--budget-mib", "1"]);
    assert!(line.contains("budget"), "{line}");
    let line = refusal("run", &path, &["-p", PROMPT, "--device", "gpu", "--kv", "q8"]);
    assert!(line.contains("--device cpu"), "{line}");
}
