//! Rules of the house that a compiler does not check: crate edges, lengths, where `cfg` and `unsafe` may
//! stand, licences, versions, words. Every rule is shown to fail on a bad example.

mod crates;
mod licences;
mod lines;
mod seam;
mod source;
mod versions;
mod words;
mod workspace;

use std::collections::BTreeSet;
use workspace::Workspace;

/// Something that breaks a rule. `rule` and `place` together are what the allow-list names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    rule: &'static str,
    place: String,
    what: String,
}

impl Finding {
    fn new(rule: &'static str, place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { rule, place: place.into(), what: what.into() }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.rule, self.place, self.what)
    }
}

/// Findings that no line of the allow-list covers, and lines that cover no finding. A line is a rule, a place
/// and a reason; `#` starts a comment.
fn judge(findings: Vec<Finding>, allow_list: &str) -> Vec<String> {
    let entries: Vec<(String, String)> = allow_list
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| {
            let mut words = line.split_whitespace();
            let mut word = || words.next().unwrap_or_default().to_owned();
            (word(), word())
        })
        .collect();
    let covers = |(rule, place): &(String, String), f: &Finding| f.rule == rule && f.place == *place;
    let unused = entries.iter().filter(|entry| !findings.iter().any(|f| covers(entry, f)));
    let mut problems: Vec<String> = unused
        .map(|(rule, place)| format!("rules-allow.txt: {rule} {place} is no longer needed; remove it"))
        .collect();
    let open = findings.iter().filter(|f| !entries.iter().any(|entry| covers(entry, f)));
    problems.extend(open.map(Finding::to_string));
    problems
}

#[test]
fn the_tree_keeps_the_rules() {
    let workspace = Workspace::load();
    let mut findings = BTreeSet::new();
    for file in &workspace.files {
        findings.extend(lines::check(&file.path, &file.text));
        findings.extend(words::check(&file.path, &file.text));
        if file.path.ends_with(".rs") {
            findings.extend(source::check(&file.path, &file.text));
        }
    }
    findings.extend(seam::check(&workspace.files));
    findings.extend(words::check_decisions(&workspace.files));
    findings.extend(crates::check(&workspace.metadata, &workspace.files));
    findings.extend(licences::check(&workspace.metadata, workspace.text_of("deny.toml")));
    findings.extend(versions::check(&workspace.metadata));
    let problems = judge(findings.into_iter().collect(), workspace.text_of("tests/rules-allow.txt"));
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn the_allow_list_covers_exactly_what_it_names() {
    let long = |place: &str| Finding::new("file-length", place, "501 lines");
    let list = "# why\n\nfile-length a.rs it is a table\n";
    assert!(judge(vec![long("a.rs")], list).is_empty());
    assert_eq!(judge(vec![long("a.rs"), long("b.rs")], list), ["file-length b.rs: 501 lines"]);
    assert_eq!(judge(vec![], list), ["rules-allow.txt: file-length a.rs is no longer needed; remove it"]);
    assert_eq!(
        judge(vec![Finding::new("line-length", "a.rs", "x")], list).len(),
        2,
        "the rule must match too"
    );
}

#[test]
fn the_tree_was_read() {
    let workspace = Workspace::load();
    let sources = workspace.files.iter().filter(|f| f.path.ends_with(".rs")).count();
    assert!(sources > 30, "only {sources} Rust files are tracked");
    assert!(!workspace.text_of("Cargo.toml").is_empty());
}
