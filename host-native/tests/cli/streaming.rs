//! Models under a budget, and files larger than 4 GiB.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fanlight_messages::TensorType;
use fanlight_tests::gguf::{DEFAULT_ALIGNMENT, GgufFile, TensorPlan, writer};
use fanlight_tests::synth::{Architecture, tiny};
use serde_json::Value;

use crate::{file, refusal, run_json, stdout};

/// Bytes of a tensor that no model uses, in front of all others.
const HOLE_BYTES: u64 = 5 << 30;

/// Holds a tenth of the weights of [`model`] beside what a pass needs.
const BUDGET: [&str; 2] = ["--budget-mib", "17"];

/// A tiny model with 5 MB of weights, most of them in the feed-forward.
fn model() -> GgufFile {
    let mut wide = tiny(Architecture::Qwen2, TensorType::Q8_0, 7);
    wide.shape.ffn_len = 8192;
    wide.build().unwrap()
}

/// The file with a hole in front of its tensors, which takes no room on the disk.
fn sparse(name: &str, small: &GgufFile) -> PathBuf {
    let hole = TensorPlan::new("unused", HOLE_BYTES / 4096, 1024, TensorType::F32).unwrap();
    assert_eq!(hole.size_bytes, HOLE_BYTES);
    let plans: Vec<_> =
        [hole].into_iter().chain(small.tensors.iter().map(|(plan, _)| plan.clone())).collect();
    let header = writer::header_bytes(&small.metadata, &plans, DEFAULT_ALIGNMENT);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut out = File::create(&path).unwrap();
    out.write_all(&header).unwrap();
    let mut offset = (header.len() as u64).next_multiple_of(DEFAULT_ALIGNMENT) + HOLE_BYTES;
    for (plan, data) in &small.tensors {
        out.seek(SeekFrom::Start(offset)).unwrap();
        out.write_all(data).unwrap();
        offset += plan.size_bytes.next_multiple_of(DEFAULT_ALIGNMENT);
    }
    // The padding behind the last tensor.
    out.set_len(offset).unwrap();
    path
}

/// What two runs of one model must have in common.
fn bits(lines: &[Value]) -> (Value, Value) {
    let last = lines.last().unwrap();
    (last["output_ids"].clone(), last["logits_hash"].clone())
}

#[test]
fn e06_tensors_beyond_four_gibibytes_are_read_uploaded_and_streamed() {
    let small = model();
    let expected = bits(&run_json(&file("e06-small.gguf", &small.to_bytes()), &[]));
    let path = sparse("e06.gguf", &small);
    assert!(path.metadata().unwrap().len() > 5 << 30);
    assert_eq!(bits(&run_json(&path, &[])), expected);
    let lines = run_json(&path, &[&BUDGET[..], &["--width", "8", "--direct"]].concat());
    let loaded = lines.iter().find(|line| line.get("loaded").is_some()).unwrap();
    let pages = loaded["streams"]["pages"].as_u64().unwrap();
    assert!(pages > 0 && loaded["gpu_bytes"].as_u64().unwrap() <= 17 << 20, "{loaded}");
    assert_eq!(bits(&lines), expected);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_budget_is_planned_before_anything_is_read_and_what_it_lacks_is_said() {
    let path = file("budget.gguf", &model().to_bytes());
    let text = stdout("inspect", &path, &[&BUDGET[..], &["--context", "512"]].concat());
    assert!(text.contains("ring of streamed pages") && text.contains("bytes of the file per pass"), "{text}");
    assert!(text.contains("predicted: "), "{text}");
    let line = refusal("run", &path, &["-p", "x", "--budget-mib", "0"]);
    assert!(line.contains("bytes are missing") && line.contains("raise the budget"), "{line}");
}
