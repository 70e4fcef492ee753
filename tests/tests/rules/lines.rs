//! Lengths of files and lines.

use crate::Finding;

const FILE_LINES_MAX: usize = 500;
const SHADER_LINES_MAX: usize = 200;
const COLUMNS_MAX: usize = 110;

/// Files whose length is not ours to choose, or that nobody reads line by line.
fn is_exempt(path: &str) -> bool {
    let generated = ["Cargo.lock", "package-lock.json", "LICENSE-APACHE", "LICENSE-MIT"];
    generated.iter().any(|name| path.ends_with(name)) || path.contains("goldens/") || path.ends_with(".json")
}

pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let ending = path.rsplit('.').next().unwrap_or_default();
    let is_shader = matches!(ending, "wgsl" | "j2");
    let is_code = matches!(ending, "rs" | "py" | "sh" | "ts" | "js" | "mjs" | "css" | "html") || is_shader;
    if is_exempt(path) || !is_code {
        return Vec::new();
    }
    let (rule, lines_max) =
        if is_shader { ("shader-length", SHADER_LINES_MAX) } else { ("file-length", FILE_LINES_MAX) };
    let mut findings = Vec::new();
    let line_count = text.lines().count();
    if line_count > lines_max {
        findings.push(Finding::new(rule, path, format!("{line_count} lines, {lines_max} allowed")));
    }
    let wide: Vec<String> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.chars().count() > COLUMNS_MAX)
        .map(|(i, _)| (i + 1).to_string())
        .collect();
    if !wide.is_empty() {
        let what = format!("lines {} are longer than {COLUMNS_MAX} columns", wide.join(", "));
        findings.push(Finding::new("line-length", path, what));
    }
    findings
}

#[test]
fn long_files_and_lines_are_found() {
    let rules = |path: &str, text: &str| check(path, text).iter().map(|f| f.rule).collect::<Vec<_>>();
    let lines = |count: usize| "x\n".repeat(count);
    assert_eq!(rules("a.rs", &lines(501)), ["file-length"]);
    assert!(rules("a.rs", &lines(500)).is_empty());
    assert_eq!(rules("a.wgsl", &lines(201)), ["shader-length"]);
    assert_eq!(rules("a.wgsl.j2", &lines(201)), ["shader-length"]);
    assert!(rules("a.wgsl", &lines(200)).is_empty());
    assert_eq!(rules("a.py", &"é".repeat(111)), ["line-length"]);
    assert!(rules("a.py", &"é".repeat(110)).is_empty());
    assert!(rules("tests/goldens/a.json", &"x".repeat(9000)).is_empty());
}
