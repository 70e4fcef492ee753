//! Drafts and stop texts on the command line: neither changes a token, and what is reported adds up.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{PROMPT, fanlight, file, json_lines, model, refusal, run_json, stdout};

/// What every way of decoding must agree on.
const SAME: [&str; 5] = ["finish", "prompt_ids", "output_ids", "text", "logits_hash"];

fn last_line(model: &Path, options: &[&str]) -> Value {
    run_json(model, options).pop().unwrap()
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
}

#[test]
fn drafts_change_no_token_and_are_accounted_for() {
    let path = file("width.gguf", &model().to_bytes());
    let off = last_line(&path, &["--width", "off"]);
    assert_eq!(off["stats"]["drafts"]["verified"], 0, "{off}");
    assert_eq!(off["stats"]["steps"], off["stats"]["decode_tokens"], "{off}");
    for (width, window) in [("1", "1"), ("8", "4"), ("32", "2")] {
        let line = last_line(&path, &["--width", width, "--window", window]);
        for key in SAME {
            assert_eq!(line[key], off[key], "{key} at width {width}");
        }
        let (stats, drafts) = (&line["stats"], &line["stats"]["drafts"]);
        let count = |value: &Value| value.as_u64().unwrap();
        let (by_accepted, by_length) =
            (numbers(&drafts["steps_by_accepted"]), numbers(&drafts["steps_by_match_length"]));
        assert_eq!((by_accepted.len(), by_length.len()), (9, 9), "{drafts}");
        let steps = count(&stats["steps"]);
        assert_eq!(by_accepted.iter().sum::<u64>(), steps, "{stats}");
        assert_eq!(by_length.iter().sum::<u64>(), steps, "{stats}");
        let accepted = (0..).zip(&by_accepted).map(|(nodes, steps)| nodes * steps).sum::<u64>();
        assert_eq!(count(&drafts["accepted"]), accepted, "{stats}");
        assert!(accepted <= count(&drafts["verified"]), "{stats}");
        // A step emits what it accepted and one more; the last may end before that one.
        let emitted = count(&stats["decode_tokens"]);
        assert!((steps + accepted).abs_diff(emitted) <= 1, "{stats}");
        // The reply repeats itself, so a draft of any width is worth something.
        assert_eq!(accepted > 0, width != "1", "{stats}");
    }
}

/// The widths are the controller's; what it learns is kept, and a damaged record is replaced.
#[test]
fn auto_changes_no_token_and_keeps_what_it_learned() {
    let path = file("auto.gguf", &model().to_bytes());
    let folder = path.with_file_name("auto-cache");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).unwrap();
    }
    let always = ["--raw", "--json", "-p", PROMPT, "-n", "200", "--context", "512"];
    let run = |options: &[&str]| {
        let output = fanlight("run", &path, &[&always[..], options].concat());
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output.status.success(), "{err}");
        (serde_json::from_str::<Value>(out.lines().last().unwrap()).unwrap(), err)
    };
    let (off, _) = run(&["--width", "off"]);
    let auto = ["--width", "auto", "--cache", path_text(&folder)];
    assert!(!folder.exists(), "a fixed width keeps nothing");
    let (first, told) = run(&[&auto[..], &["--observe"]].concat());
    let kept = || {
        let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
        files.map(|file| std::fs::read(&file).map(|bytes| (file, bytes)).unwrap()).collect::<Vec<_>>()
    };
    let [(record, bytes)] = &kept()[..] else { panic!("one record is kept: {:?}", kept()) };
    assert_eq!(bytes.len(), 64);
    std::fs::write(record, &bytes[..63]).unwrap();
    let (second, refused) = run(&auto);
    assert!(refused.contains("the record of costs is damaged"), "{refused}");
    assert_eq!(kept()[0].1.len(), 64, "it was replaced");
    let (third, quiet) = run(&[&auto[..], &["--frame-budget", "15", "--window", "2"]].concat());
    assert!(!quiet.contains("record of costs"), "{quiet}");
    for line in [first, second, third] {
        SAME.iter().for_each(|key| assert_eq!(line[key], off[key], "{key}"));
    }
    let observed = told.lines().rfind(|line| line.starts_with("{")).unwrap();
    let controller = &serde_json::from_str::<Value>(observed).unwrap()["observed"]["controller"];
    assert!(numbers(&controller["online"]["plainUs"])[0] > 0, "{controller}");
    // On a processor pipelines take longer than a tenth of this reply: no width is ready before its end.
    assert!(numbers(&controller["windowsByWidth"])[0] > 0, "{controller}");
}

#[test]
fn a_width_that_does_not_exist_is_refused_with_those_that_do() {
    let path = file("wrong-width.gguf", &model().to_bytes());
    for width in ["3", "0", "64", "-1", "wide", ""] {
        let output = fanlight("run", &path, &["-p", "sea", &format!("--width={width}")]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("off, auto or one of [1, 2, 4, 8, 16, 32]"), "{stderr}");
    }
}

/// Two texts that occur in the reply, and the cut by the one that is complete first.
#[test]
fn a_stop_text_cuts_the_reply_exactly() {
    let path = file("stop.gguf", &model().to_bytes());
    let whole = last_line(&path, &[]);
    let text = whole["text"].as_str().unwrap();
    let ascii = text.chars().take_while(char::is_ascii).count();
    assert!(ascii >= 12, "the reply of this model begins with plain characters: {text:?}");
    let (early, late) = (&text[2..7], &text[5..9]);
    let end_of = |stop: &str| text.find(stop).unwrap() + stop.len();
    assert!(end_of(early) < end_of(late), "{text:?}");
    for (stops, first) in [(&[late][..], late), (&[late, early], early)] {
        let cut = text.find(first).unwrap();
        for width in ["off", "8"] {
            let mut options = vec!["--width", width];
            options.extend(stops.iter().flat_map(|stop| ["--stop", stop]));
            let lines = run_json(&path, &options);
            let last = lines.last().unwrap();
            assert_eq!((text_of(last), last["finish"].as_str()), (&text[..cut], Some("stop")));
            let streamed: String =
                lines.iter().filter(|line| line.get("ids").is_some()).map(text_of).collect();
            assert!(text[..cut].starts_with(&streamed), "{streamed:?} was shown before the stop was seen");
            // Ids and hash end with the token that completed the stop text: a reply of just as many tokens.
            let ids = last["output_ids"].as_array().unwrap();
            assert!(whole["output_ids"].as_array().unwrap().starts_with(ids), "{last}");
            let shorter = of_tokens(&path, ids.len());
            assert_eq!(shorter["logits_hash"], last["logits_hash"], "{stops:?} at width {width}");
            assert!(text_of(&shorter).contains(first), "{shorter}");
            let before = of_tokens(&path, ids.len() - 1);
            assert!(!text_of(&before).contains(first), "complete a token too early: {before}");
        }
    }
    let last = last_line(&path, &["--stop", "no such text"]);
    for key in SAME {
        assert_eq!(last[key], whole[key], "{key} with a stop text that does not occur");
    }
}

/// The reply's first `tokens` tokens.
fn of_tokens(model: &Path, tokens: usize) -> Value {
    let tokens = tokens.to_string();
    let options = ["--raw", "--json", "-p", PROMPT, "-n", &tokens, "--context", "512"];
    json_lines("run", model, &options).pop().unwrap()
}

fn text_of(line: &Value) -> &str {
    line["text"].as_str().unwrap()
}

#[test]
fn stop_texts_that_cannot_be_looked_for_are_refused() {
    let path = file("wrong-stop.gguf", &model().to_bytes());
    let line = refusal("run", &path, &["-p", "sea", "--stop", ""]);
    assert!(line.contains("stop texts") && line.contains("0 bytes"), "{line}");
    let long = "x".repeat(1025);
    let line = refusal("run", &path, &["-p", "sea", "--stop", &long]);
    assert!(line.contains("1025 bytes") && line.contains("1024"), "{line}");
    let many: Vec<&str> = std::iter::repeat_n(["--stop", "x"], 17).flatten().collect();
    let line = refusal("run", &path, &[&["-p", "sea"], &many[..]].concat());
    assert!(line.contains("17") && line.contains("16"), "{line}");
}

/// A suite of two short prompts.
fn suite(name: &str) -> PathBuf {
    let line = |id: &str, message: &str| {
        serde_json::json!({ "id": id, "class": "answer", "split": id, "message": message }).to_string()
    };
    file(name, format!("{}\n\n{}\n", line("learn", "the sea"), line("test", "a keeper wrote")).as_bytes())
}

fn path_text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_suite_is_measured_recorded_and_replayed() {
    let path = file("suite.gguf", &model().to_bytes());
    let suite = suite("suite.jsonl");
    let recorded = suite.with_file_name("suite-recorded.jsonl");
    let always = ["--suite", path_text(&suite), "--context", "512", "-n", "8", "--hash"];
    let options = [&always[..], &["--ways", "off/1/1,8/2", "--record", path_text(&recorded)]].concat();
    let text = stdout("bench", &path, &options);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[0].starts_with("readback per token") && lines[1].starts_with("width 8, window 2"),
        "{text}"
    );
    assert!(lines.iter().all(|line| line.contains("ms/token") && line.contains("tokens/step")), "{text}");

    let recordings = std::fs::read_to_string(&recorded).unwrap();
    let recordings: Vec<Value> = recordings.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(recordings.iter().map(|r| r["id"].as_str().unwrap()).collect::<Vec<_>>(), ["learn", "test"]);
    let run = json_lines("run", &path, &["-p", "the sea", "-n", "8", "--context", "512", "--json"]);
    let run = run.last().unwrap();
    for key in ["prompt_ids", "output_ids"] {
        assert_eq!(recordings[0][key], run[key], "a suite says what `run` says: {key}");
    }

    let ways =
        json_lines("bench", &path, &[&always[..], &["--ways", "off,4/1,auto/auto", "--json"]].concat());
    let ways: Vec<&Value> = ways.iter().filter(|line| line.get("way").is_some()).collect();
    let names: Vec<_> = ways.iter().map(|line| line["way"].as_str().unwrap()).collect();
    assert_eq!(names, ["plain, window 2", "width 4, window 1", "auto, window auto"]);
    let emitted: usize =
        recordings.iter().map(|r| r["output_ids"].as_array().unwrap().len().saturating_sub(1)).sum();
    for way in &ways {
        assert_eq!((way["tokens"].as_u64(), way["suite"].as_u64()), (Some(emitted as u64), Some(2)), "{way}");
    }
    replays(&recorded);
}

fn replays(recorded: &Path) {
    let text = stdout("replay", recorded, &[]);
    // Two orders, with and without memory, four drafters.
    assert_eq!(text.lines().count(), 16, "{text}");
    assert!(text.contains("prompt lookup") && text.contains("mixing, learned"), "{text}");
    let lines = json_lines("replay", recorded, &["--json", "--split", "test", "--width", "8"]);
    assert_eq!(lines.len(), 16);
    for line in &lines {
        let per_step = line["tokens_per_step"].as_f64().unwrap();
        assert!((1.0..=8.0).contains(&per_step), "{line}");
        assert_eq!(line["by_class"]["answer"].as_f64(), Some(per_step), "{line}");
    }
    let line = refusal("replay", recorded, &["--split", "neither"]);
    assert!(line.contains(path_text(recorded)) && line.contains("neither"), "{line}");
}

#[test]
fn broken_lines_are_named_by_file_and_number() {
    let path = file("broken.gguf", &model().to_bytes());
    let good = r#"{"id":"a","class":"b","split":"c","message":"sea"}"#;
    for (name, line, wanted) in [
        ("no-json.jsonl", "{", "EOF"),
        ("no-class.jsonl", r#"{"id":"a","split":"c","message":"sea"}"#, "class"),
        ("no-text.jsonl", r#"{"id":"a","class":"b","split":"c","message":7}"#, "message"),
    ] {
        let suite = file(name, format!("{good}\n\n{line}\n").as_bytes());
        let refused = refusal("bench", &path, &["--suite", path_text(&suite)]);
        for part in [name, "line 3", wanted] {
            assert!(refused.contains(part), "{refused}");
        }
    }
    let empty = file("empty.jsonl", b"\n\n");
    let refused = refusal("bench", &path, &["--suite", path_text(&empty)]);
    assert!(refused.contains("empty.jsonl") && refused.contains("no prompt"), "{refused}");

    let good = r#"{"id":"a","class":"b","split":"c","prompt_ids":[1],"output_ids":[2]}"#;
    let recorded = file("broken-recording.jsonl", format!("{good}\n{{}}\n").as_bytes());
    let refused = refusal("replay", &recorded, &[]);
    assert!(refused.contains("broken-recording.jsonl") && refused.contains("line 2"), "{refused}");
    let missing = recorded.with_file_name("missing.jsonl");
    assert!(refusal("replay", &missing, &[]).contains("missing.jsonl"));
    assert!(refusal("bench", &path, &["--suite", path_text(&missing)]).contains("missing.jsonl"));
}

#[test]
fn ways_that_do_not_exist_are_refused() {
    let path = file("ways.gguf", &model().to_bytes());
    for (ways, wanted) in
        [("3", "off, auto or one of"), ("8/x", "no number"), ("8/2/2/2", "WIDTH/WINDOW/IN-FLIGHT")]
    {
        let output = fanlight("bench", &path, &["--suite", "s", "--ways", ways]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && stderr.contains(wanted), "{stderr}");
    }
    let suite = suite("ways.jsonl");
    let refused = refusal("bench", &path, &["--suite", path_text(&suite), "--ways", "8/3"]);
    assert!(refused.contains("window steps") && refused.contains("1, 2 or 4"), "{refused}");
}
