//! Licences and sources of every dependency, against the list in deny.toml (which cargo-deny reads as well).

use crate::Finding;
use serde_json::Value as Json;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub fn check(metadata: &Json, deny_toml: &str) -> Vec<Finding> {
    let allowed = allowed_licences(deny_toml);
    assert!(!allowed.is_empty(), "deny.toml has no allow = [...] under [licenses]");
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    packages.iter().flat_map(|package| check_package(package, &allowed)).collect()
}

fn check_package(package: &Json, allowed: &[String]) -> Vec<Finding> {
    let name = package["name"].as_str().unwrap_or_default();
    let mut findings = Vec::new();
    // No source: a crate of this workspace.
    if let Some(source) = package["source"].as_str().filter(|source| *source != CRATES_IO) {
        findings.push(Finding::new(
            "source",
            name,
            format!("comes from {source}; only crates.io is allowed"),
        ));
    }
    match package["license"].as_str() {
        Some(expression) if is_allowed(expression, allowed) => {}
        Some(expression) => {
            findings.push(Finding::new("licence", name, format!("{expression} is not allowed by deny.toml")));
        }
        None => findings.push(Finding::new("licence", name, "states no licence")),
    }
    findings
}

/// The strings of the first `allow = [...]` behind `[licenses]`.
fn allowed_licences(deny_toml: &str) -> Vec<String> {
    let section = deny_toml.split("[licenses]").nth(1).unwrap_or_default();
    let list = section.split("allow = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// True when the SPDX expression can be met with allowed licences. `AND` binds closer than `OR`; an old `/`
/// means `OR`.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    any_of(&tokens, &mut at, allowed) && at == tokens.len()
}

fn any_of(tokens: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut met = all_of(tokens, at, allowed);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all_of(tokens, at, allowed);
    }
    met
}

fn all_of(tokens: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut met = one(tokens, at, allowed);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(tokens, at, allowed);
    }
    met
}

/// A licence, with or without an exception, or an expression in parentheses.
fn one(tokens: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let Some(&token) = tokens.get(*at) else { return false };
    *at += 1;
    if token == "(" {
        let met = any_of(tokens, at, allowed);
        let is_closed = tokens.get(*at) == Some(&")");
        *at += 1;
        return met && is_closed;
    }
    let mut licence = token.to_owned();
    if tokens.get(*at) == Some(&"WITH") {
        licence = format!("{token} WITH {}", tokens.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    allowed.contains(&licence)
}

#[cfg(test)]
mod examples {
    use super::{CRATES_IO, allowed_licences, check_package, is_allowed};
    use serde_json::json;

    const DENY: &str =
        "[licenses]\nallow = [\n  \"MIT\",\n  \"Apache-2.0 WITH LLVM-exception\", \"Zlib\"\n]\n";

    #[test]
    fn expressions_are_weighed() {
        let allowed = allowed_licences(DENY);
        assert_eq!(allowed, ["MIT", "Apache-2.0 WITH LLVM-exception", "Zlib"]);
        for good in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "(GPL-3.0 OR MIT) AND Zlib",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "GPL-3.0 OR MIT AND BSD", "(MIT", "MIT)", ""]
        {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn foreign_sources_and_missing_licences_are_found() {
        let rules = |package| {
            check_package(&package, &allowed_licences(DENY)).iter().map(|f| f.rule).collect::<Vec<_>>()
        };
        assert!(rules(json!({ "name": "a", "license": "MIT", "source": CRATES_IO })).is_empty());
        assert!(rules(json!({ "name": "a", "license": "MIT", "source": null })).is_empty());
        assert_eq!(rules(json!({ "name": "a", "license": null, "source": CRATES_IO })), ["licence"]);
        assert_eq!(
            rules(json!({ "name": "a", "license": "MIT", "source": "git+https://example.org" })),
            ["source"]
        );
    }
}
