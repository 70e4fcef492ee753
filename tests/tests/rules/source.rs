//! Rules on Rust source: the sentence at the top, lengths of functions, where `cfg(target_…)` and `unsafe`
//! may stand, macros that mean unfinished work.

use crate::Finding;

const FUNCTION_LINES_MAX: usize = 70;
/// Where code may depend on the target.
const CFG_FOLDERS: [&str; 8] = [
    "gpu/src/device",
    "actors/src/kit",
    "compute/src/simd",
    "compute/src/team",
    "cpu/src/driver",
    "host-web/",
    "host-native/",
    "tests/",
];
/// Where the compiler may be overruled.
const UNSAFE_FOLDERS: [&str; 4] = ["gpu/src/device", "compute/src/simd", "compute/src/team", "host-web/"];

pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |rule, place: &str, what: String| findings.push(Finding::new(rule, place, what));
    if !text.starts_with("//!") {
        add("file-doc", path, "does not start with //! saying what the file is".to_owned());
    }
    let code = code_only(text);
    for (name, lines) in functions(&code) {
        if lines > FUNCTION_LINES_MAX {
            let what = format!("{lines} lines, {FUNCTION_LINES_MAX} allowed");
            add("function-length", &format!("{path}::{name}"), what);
        }
    }
    let is_in = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    for (index, line) in code.lines().enumerate() {
        let at = format!("line {}", index + 1);
        if line.contains("cfg") && line.contains("target_") && !is_in(&CFG_FOLDERS) {
            add("cfg-target", path, format!("{at}: cfg(target_…) belongs into {}", CFG_FOLDERS.join(", ")));
        }
        if words(line).any(|word| word == "unsafe") && !is_in(&UNSAFE_FOLDERS) {
            add("unsafe", path, format!("{at}: unsafe belongs into {}", UNSAFE_FOLDERS.join(", ")));
        }
        for name in ["todo", "unimplemented", "dbg"] {
            if line.contains(&format!("{name}!")) {
                add("unfinished", path, format!("{at}: {name}!"));
            }
        }
    }
    findings
}

/// The identifiers and numbers of a line.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The source with comments and the insides of string and character literals blanked, line for line.
fn code_only(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = skipped_len(rest, out.chars().next_back());
        if len == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            out.extend(rest[..len].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[len..];
        }
    }
    out
}

/// Bytes of the comment or literal that `rest` starts with; 0 when it starts with code.
fn skipped_len(rest: &str, before: Option<char>) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment_len(rest);
    }
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with("r\"") || rest.starts_with("r#") && !in_word {
        let hashes = rest[1..].chars().take_while(|c| *c == '#').count();
        if rest[1 + hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = 2 + hashes;
            return rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len());
        }
        return 0;
    }
    if rest.starts_with('"') {
        return quoted_len(rest, '"');
    }
    if let Some(inside) = rest.strip_prefix('\'') {
        // A lifetime has no closing quote after one character.
        let mut chars = inside.chars();
        let (first, second) = (chars.next(), chars.next());
        return if first == Some('\\') || second == Some('\'') { quoted_len(rest, '\'') } else { 0 };
    }
    0
}

/// Length of a literal with escapes, quotes included.
fn quoted_len(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if !is_escaped && c == quote {
            return at + c.len_utf8();
        }
        is_escaped = !is_escaped && c == '\\';
    }
    rest.len()
}

/// Length of a comment that may hold others.
fn block_comment_len(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Name and number of lines (signature to closing brace) of every function with a body.
fn functions(code: &str) -> Vec<(String, usize)> {
    let starts = code.match_indices("fn ").filter(|(at, _)| {
        let before = code[..*at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
    });
    starts
        .filter_map(|(at, _)| {
            let name = words(&code[at + 3..]).next()?.to_owned();
            let body = body_end(&code[at..])?;
            Some((name, code[at..at + body].lines().count()))
        })
        .collect()
}

/// Offset behind the closing brace of the function that `code` starts with; `None` for a declaration.
fn body_end(code: &str) -> Option<usize> {
    let (mut brackets, mut braces) = (0_i32, 0_i32);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if brackets == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces -= 1;
                if braces == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod examples {
    use super::{check, code_only, functions};

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        check(path, &format!("//! Doc.\n{text}")).iter().map(|f| f.rule).collect()
    }

    #[test]
    fn a_file_without_a_first_sentence_is_found() {
        assert_eq!(check("a.rs", "use x;\n")[0].rule, "file-doc");
        assert!(rules("a.rs", "use x;\n").is_empty());
    }

    #[test]
    fn long_functions_are_found() {
        let function =
            |lines: usize| format!("fn long() -> [u8; 2] {{\n{}}}\n", "    {x}\n".repeat(lines - 2));
        assert_eq!(rules("a.rs", &function(71)), ["function-length"]);
        assert!(rules("a.rs", &function(70)).is_empty());
        let two = "trait T { fn a(&self, x: [u8; 2]); fn b() { } }\nconst F: fn (u8) = c;";
        assert_eq!(functions(two), [("b".to_owned(), 1)]);
        let tricky = "fn a() { '{'; \"}\"; /* } */ r#\"\"}\"#;\n b::<'x>(); }\nfn c() {}";
        assert_eq!(functions(&code_only(tricky)), [("a".to_owned(), 2), ("c".to_owned(), 1)]);
    }

    #[test]
    fn targets_and_unsafe_out_of_place_are_found() {
        let cfg = "#[cfg(not(target_arch = \"wasm32\"))]\nuse x;\n";
        assert_eq!(rules("pager/src/a.rs", cfg), ["cfg-target"]);
        assert!(rules("gpu/src/device/a.rs", cfg).is_empty());
        let overrule = "fn f() { unsafe { g() } }\n";
        assert_eq!(rules("actors/src/a.rs", overrule), ["unsafe"]);
        assert!(rules("host-web/src/a.rs", overrule).is_empty());
        assert!(rules("a.rs", "#![deny(unsafe_code)] // unsafe\nlet x = \"unsafe\";\n").is_empty());
    }

    #[test]
    fn unfinished_work_is_found() {
        assert_eq!(rules("a.rs", "fn f() { todo!() }\n"), ["unfinished"]);
        assert_eq!(rules("a.rs", "fn f() { dbg!(1); unimplemented!() }\n"), ["unfinished", "unfinished"]);
        assert!(rules("a.rs", "// todo!\n").is_empty());
    }
}
