//! Words that no tracked file may hold, and the form of decision records.

use crate::Finding;
use crate::workspace::TextFile;

const DECISION_LINES_MAX: usize = 60;

/// Paths of single machines. Written in pieces, so that this file does not hold them.
fn forbidden() -> Vec<String> {
    let pieces = [
        ("/wo", "rk/"),
        ("/ro", "ot/"),
        ("shared/", "prototypes"),
        ("shared/", "goldens"),
        ("shared/", "design"),
    ];
    pieces.iter().map(|(a, b)| format!("{a}{b}")).collect()
}

pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let hits = forbidden().into_iter().filter(|word| text.contains(word.as_str()));
    hits.map(|word| Finding::new("word", path, format!("names {word}, which exists on one machine only")))
        .collect()
}

/// Every file of docs/decisions is `NNNN-title.md`, numbered once, and one page long.
pub fn check_decisions(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut numbers = Vec::new();
    for file in files {
        let Some(name) = file.path.strip_prefix("docs/decisions/") else { continue };
        let number: String = name.chars().take_while(char::is_ascii_digit).collect();
        if number.len() != 4 || !name[4..].starts_with('-') || !name.ends_with(".md") || name.len() < 9 {
            findings.push(Finding::new("decision-name", &file.path, "wanted NNNN-title.md"));
        } else if numbers.contains(&number) {
            findings.push(Finding::new("decision-name", &file.path, format!("number {number} is taken")));
        }
        numbers.push(number);
        let line_count = file.text.lines().count();
        if line_count > DECISION_LINES_MAX {
            let what = format!("{line_count} lines, {DECISION_LINES_MAX} allowed");
            findings.push(Finding::new("decision-length", &file.path, what));
        }
    }
    findings
}

#[test]
fn forbidden_words_are_found() {
    for word in forbidden() {
        assert_eq!(check("a.md", &format!("see {word}x")).len(), 1);
    }
    assert!(check("a.md", "see ./work and shared memory").is_empty());
}

#[test]
fn badly_formed_decisions_are_found() {
    let rules = |path: &str, lines: usize| {
        let file = TextFile { path: path.to_owned(), text: "x\n".repeat(lines) };
        check_decisions(&[file]).iter().map(|f| f.rule).collect::<Vec<_>>()
    };
    assert!(rules("docs/decisions/0001-lane-k.md", 60).is_empty());
    assert_eq!(rules("docs/decisions/0001-lane-k.md", 61), ["decision-length"]);
    assert_eq!(rules("docs/decisions/1-lane-k.md", 3), ["decision-name"]);
    assert_eq!(rules("docs/decisions/0001-lane-k.txt", 3), ["decision-name"]);
    let file =
        |title: &str| TextFile { path: format!("docs/decisions/0001-{title}.md"), text: String::new() };
    assert_eq!(check_decisions(&[file("a"), file("b")])[0].what, "number 0001 is taken");
}
