//! Every field of the seam between models and machines has a reader: what a program says and no machine
//! does is silently wrong text.

use crate::Finding;
use crate::workspace::TextFile;

/// Where programs are declared.
const SEAM: &str = "messages/src/program.rs";
/// Types whose fields machines read: those that name things for people are left out.
const TYPES: [&str; 6] = ["RopeSpec", "LongRope", "AttentionShape", "Op", "Program", "QueryFactor"];
/// Who reads them. What only bounds a context is the planner's.
const MACHINES: [&str; 1] = ["gpu/src/"];
const PLANNED: [&str; 1] = ["context_len_max"];
/// Fields behind methods of the seam itself, with the method that machines call.
const METHODS: [(&str, &str); 5] = [
    ("inverse_frequencies", "frequencies"),
    ("long", "frequencies"),
    ("beyond", "frequencies"),
    ("gain", "query_factor"),
    ("period", "query_factor"),
];

/// The fields of the types above, by name.
fn fields(seam: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let mut depth = 0;
    for line in seam.lines() {
        let code = line.trim();
        if depth == 0 {
            let name = code.strip_prefix("pub struct ").or_else(|| code.strip_prefix("pub enum "));
            let name = name.and_then(|rest| rest.split([' ', '{', '(']).next());
            depth = i32::from(name.is_some_and(|name| TYPES.contains(&name)) && code.ends_with('{'));
            continue;
        }
        depth += code.matches('{').count() as i32 - code.matches('}').count() as i32;
        let field = code.strip_prefix("pub ").unwrap_or(code).split_once(": ").map(|(name, _)| name);
        let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        fields.extend(field.filter(is_name).map(str::to_owned));
    }
    fields
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|found| found == word)
}

pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let Some(seam) = files.iter().find(|file| file.path == SEAM) else {
        return vec![Finding::new("seam", SEAM, "is not there")];
    };
    let mut findings = Vec::new();
    for field in fields(&seam.text) {
        let room = if PLANNED.contains(&field.as_str()) { &["pager/src/"] } else { &MACHINES };
        let word =
            METHODS.iter().find(|(name, _)| *name == field).map_or(field.as_str(), |(_, method)| method);
        for room in room {
            let is_source = |f: &&TextFile| {
                f.path.starts_with(room) && f.path.ends_with(".rs") && !f.path.contains("cases")
            };
            if !files.iter().filter(is_source).any(|file| has_word(&file.text, word)) {
                findings.push(Finding::new("seam", SEAM, format!("nothing in {room} reads {field}")));
            }
        }
    }
    findings
}

#[test]
fn n01_a_field_without_a_reader_is_found() {
    let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
    let seam = "pub struct Program {\n    /// A cap: of logits.\n    pub cap: f32,\n}\n\
                pub enum Op {\n    Add {\n        bias: u32,\n    },\n}\n\
                pub struct Other {\n    pub name: u32,\n}\n";
    let found = |runner: &str| check(&[file(SEAM, seam), file("gpu/src/runner.rs", runner)]);
    assert!(found("program.cap; Op::Add { bias }").is_empty());
    assert_eq!(found("program.caps; Op::Add { bias }").len(), 1);
    assert_eq!(found("").len(), 2);
    let in_tests = [file(SEAM, seam), file("gpu/src/kernels/add/cases.rs", "cap bias")];
    assert_eq!(check(&in_tests).len(), 2);
}
