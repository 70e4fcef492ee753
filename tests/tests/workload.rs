//! The workload keeps what its readers rely on, and its loader refuses what it should.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use fanlight_models::text::{Special, Tokenizer};
use fanlight_tests::goldens::model_path;
use fanlight_tests::rig::{on_disk, open};
use fanlight_tests::workload::{
    MESSAGE_TOKENS_MAX, PAGE_BYTES_MAX, Split, TaskClass, Workload, WorkloadError, WorkloadPrompt,
};

const SMOLLM2: &str = "smollm2-135m-instruct-q4_1.gguf";
const PROMPTS_MIN: usize = 64;
const CLASS_PROMPTS_MIN: usize = 9;
/// Half of a class at least must be left for each side of the split, give or take one.
const CLASS_SPLIT_PROMPTS_MIN: usize = 4;
const PAGES_MIN: usize = 16;

fn load() -> Vec<WorkloadPrompt> {
    Workload::load().expect("the workload can be read")
}

fn count(prompts: &[WorkloadPrompt], class: TaskClass, split: Split) -> usize {
    prompts.iter().filter(|p| p.class == class && p.split == split).count()
}

/// Keys that stand with more than one value, such as a page in both splits.
fn ambiguous<K: Ord, V: Ord>(pairs: impl Iterator<Item = (K, V)>) -> Vec<K> {
    let mut seen: BTreeMap<K, BTreeSet<V>> = BTreeMap::new();
    for (key, value) in pairs {
        seen.entry(key).or_default().insert(value);
    }
    seen.into_iter().filter(|(_, values)| values.len() > 1).map(|(key, _)| key).collect()
}

#[test]
fn there_are_enough_prompts_of_every_class_in_both_splits() {
    let prompts = load();
    assert!(prompts.len() >= PROMPTS_MIN, "{} prompts, {PROMPTS_MIN} wanted", prompts.len());
    for class in TaskClass::ALL {
        let [learn, test] = Split::ALL.map(|split| count(&prompts, class, split));
        assert!(learn + test >= CLASS_PROMPTS_MIN, "{}: {learn} + {test} prompts", class.name());
        assert!(learn.min(test) >= CLASS_SPLIT_PROMPTS_MIN, "{}: {learn} + {test} prompts", class.name());
    }
}

#[test]
fn ids_are_unique() {
    let prompts = load();
    let ids: BTreeSet<_> = prompts.iter().map(|p| &p.id).collect();
    assert_eq!(ids.len(), prompts.len());
}

#[test]
fn no_page_and_no_session_is_in_both_splits() {
    let prompts = load();
    assert!(ambiguous(prompts.iter().map(|p| (&p.page, p.split))).is_empty());
    assert!(ambiguous(prompts.iter().map(|p| (&p.session, p.split))).is_empty());
    assert_eq!(ambiguous([("a", 1), ("b", 1), ("a", 2)].into_iter()), ["a"], "the check itself can fail");
}

#[test]
fn every_page_is_used_and_no_two_are_equal() {
    let prompts = load();
    let used: BTreeSet<_> = prompts.iter().map(|p| p.page.clone()).collect();
    let folder = Workload::folder().join("pages");
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<_> = names.collect();
    assert_eq!(used, there);
    let texts: BTreeSet<_> =
        there.iter().map(|name| fs::read_to_string(folder.join(name)).unwrap()).collect();
    assert_eq!(texts.len(), there.len());
    assert!(there.len() >= PAGES_MIN, "{} pages, {PAGES_MIN} wanted", there.len());
}

#[test]
fn the_message_is_the_instruction_and_the_page() {
    for prompt in load() {
        let page = fs::read_to_string(Workload::folder().join("pages").join(&prompt.page)).unwrap();
        assert_eq!(prompt.message, [prompt.instruction.as_str(), "\n\n", &page].concat(), "{}", prompt.id);
    }
}

#[test]
fn the_readme_states_the_counts() {
    let prompts = load();
    let readme = fs::read_to_string(Workload::folder().join("README.md")).unwrap();
    for class in TaskClass::ALL {
        let [learn, test] = Split::ALL.map(|split| count(&prompts, class, split));
        let row = format!("| {} | {learn} | {test} | {} |", class.name(), learn + test);
        assert!(readme.contains(&row), "README.md lacks the row {row}");
    }
}

#[test]
fn every_message_fits() {
    let path = model_path(SMOLLM2);
    let file = File::open(&path).unwrap_or_else(|e| panic!("{}: {e}; run `make fetch`", path.display()));
    let header = open(on_disk(file)).unwrap().file;
    let tokenizer = Tokenizer::from_metadata(&header.metadata).unwrap();
    let mut lengths: BTreeMap<TaskClass, Vec<usize>> = BTreeMap::new();
    let mut too_long = Vec::new();
    for prompt in load() {
        let token_count = tokenizer.encode(&prompt.message, Special::Ignore).len();
        if token_count > MESSAGE_TOKENS_MAX {
            too_long.push((prompt.id, token_count));
        }
        lengths.entry(prompt.class).or_default().push(token_count);
    }
    for (class, mut lengths) in lengths {
        lengths.sort_unstable();
        let mean = lengths.iter().sum::<usize>() / lengths.len();
        let (min, median, max) = (lengths[0], lengths[lengths.len() / 2], lengths[lengths.len() - 1]);
        println!(
            "{}: {} prompts, {min} to {max} tokens, mean {mean}, median {median}",
            class.name(),
            lengths.len()
        );
    }
}

/// A workload of one page, `a.md`, and this list of prompts.
fn folder_with(name: &str, prompts: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("workload-{name}"));
    fs::create_dir_all(folder.join("pages")).unwrap();
    fs::write(folder.join("pages/a.md"), "A page.\n").unwrap();
    fs::write(folder.join("prompts.jsonl"), prompts).unwrap();
    folder
}

const GOOD: &str =
    r#"{"id":"a","class":"code","page":"a.md","instruction":"Do.","session":"s","split":"test"}"#;

fn error_of(name: &str, prompts: &str) -> WorkloadError {
    Workload::load_from(&folder_with(name, prompts)).expect_err(prompts)
}

#[test]
fn a_good_list_is_read() {
    let prompts = Workload::load_from(&folder_with("good", &format!("{GOOD}\n\n"))).unwrap();
    assert_eq!(prompts.len(), 1);
    assert_eq!(prompts[0].message, "Do.\n\nA page.\n");
    assert_eq!((prompts[0].class, prompts[0].split), (TaskClass::Code, Split::Test));
}

#[test]
fn bad_lines_are_named() {
    let second = |text: &str| format!("{GOOD}\n{text}\n");
    let cut = error_of("cut", &second(&GOOD[..30]));
    assert!(matches!(cut, WorkloadError::Json { line: 2, .. }), "{cut}");
    for bad in [
        "[]".to_owned(),
        GOOD.replace(r#""id":"a","#, ""),
        GOOD.replace(r#""id":"a""#, r#""id":7"#),
        GOOD.replace(r#""id":"a""#, r#""id":"""#),
        GOOD.replace(r#""id":"a""#, r#""id":"a","note":"x""#),
    ] {
        let error = error_of("fields", &second(&bad));
        assert!(matches!(error, WorkloadError::Fields { line: 2, .. }), "{bad}: {error}");
    }
    for (bad, wanted) in
        [(GOOD.replace("code", "poem"), "class"), (GOOD.replace("\"test\"", "\"dev\""), "split")]
    {
        let error = error_of("names", &second(&bad));
        assert!(matches!(error, WorkloadError::UnknownName { line: 2, key, .. } if key == wanted), "{error}");
    }
}

#[test]
fn pages_are_files_of_the_folder_and_bounded() {
    for bad in ["../prompts.jsonl", "/etc/hostname", "..", "x/a.md", "a.md/"] {
        let error = error_of("paths", &GOOD.replace("a.md", bad));
        assert!(matches!(error, WorkloadError::PageName { line: 1, .. }), "{bad}: {error}");
    }
    let missing = error_of("missing", &GOOD.replace("a.md", "b.md"));
    assert!(matches!(missing, WorkloadError::Io { .. }), "{missing}");
    let folder = folder_with("large", GOOD);
    fs::write(folder.join("pages/a.md"), "x".repeat(PAGE_BYTES_MAX as usize)).unwrap();
    assert!(Workload::load_from(&folder).is_ok());
    fs::write(folder.join("pages/a.md"), "x".repeat(PAGE_BYTES_MAX as usize + 1)).unwrap();
    let large = Workload::load_from(&folder).expect_err("one byte too many");
    assert!(matches!(large, WorkloadError::TooLarge { .. }), "{large}");
}

/// What `fanlight bench --suite` is given: a line per prompt with the four texts it reads.
#[test]
fn the_program_prints_every_prompt_as_a_suite() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_workload")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let prompts = Workload::load().unwrap();
    assert_eq!(text.lines().count(), prompts.len());
    for (line, prompt) in text.lines().zip(&prompts) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let (class, split) = (prompt.class.name(), prompt.split.name());
        let wanted =
            [("id", &prompt.id[..]), ("class", class), ("split", split), ("message", &prompt.message)];
        assert_eq!(line.as_object().unwrap().len(), wanted.len(), "{line}");
        for (key, text) in wanted {
            assert_eq!(line[key], text, "{key} of {}", prompt.id);
        }
    }
}
