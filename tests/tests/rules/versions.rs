//! No dependency in two versions without a reason, and none without a version.

use crate::Finding;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The newest version of each crate is free; the allow-list says why another one is there.
pub fn check(metadata: &Json) -> Vec<Finding> {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        versions.entry(text("name")).or_default().push(text("version"));
    }
    let mut findings = Vec::new();
    for (name, mut all) in versions {
        all.sort_by_key(|version| numbers(version));
        let newest = all.pop().unwrap_or_default();
        findings.extend(all.iter().map(|version| {
            Finding::new("duplicate", format!("{name}@{version}"), format!("{newest} is there too"))
        }));
    }
    let ours = packages.iter().filter(|package| package["source"].is_null());
    findings.extend(ours.flat_map(wildcards));
    findings
}

/// Major, minor and patch.
fn numbers(version: &str) -> Vec<u64> {
    let release = version.split(['-', '+']).next().unwrap_or_default();
    release.split('.').map(|number| number.parse().unwrap_or(0)).collect()
}

/// Dependencies of any version that do not lie in the workspace.
fn wildcards(package: &Json) -> Vec<Finding> {
    let name = package["name"].as_str().unwrap_or_default();
    let dependencies = package["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
    let wild = dependencies.iter().filter(|d| d["req"] == "*" && d["path"].is_null());
    let what = |d: &Json| format!("{} in any version; name one", d["name"].as_str().unwrap_or_default());
    wild.map(|d| Finding::new("wildcard", name, what(d))).collect()
}

#[cfg(test)]
mod examples {
    use super::check;
    use serde_json::json;

    #[test]
    fn older_versions_and_wildcards_are_found() {
        let package = |name: &str, version: &str| json!({ "name": name, "version": version, "source": "x" });
        let ours = |req: &str, path: Option<&str>| {
            let dependency = json!({ "name": "b", "req": req, "path": path });
            json!({ "name": "a", "version": "1.0.0", "source": null, "dependencies": [dependency] })
        };
        let found = |packages: serde_json::Value| {
            let findings = check(&json!({ "packages": packages }));
            findings.into_iter().map(|f| format!("{} {}", f.rule, f.place)).collect::<Vec<_>>()
        };
        let all =
            [package("b", "0.10.1"), package("b", "0.9.12"), package("c", "1.0.0"), package("b", "0.2.0")];
        assert_eq!(found(json!(all)), ["duplicate b@0.2.0", "duplicate b@0.9.12"]);
        assert_eq!(found(json!([ours("*", None)])), ["wildcard a"]);
        assert!(found(json!([ours("^1", None)])).is_empty());
        assert!(found(json!([ours("*", Some("/b"))])).is_empty(), "its own version is there");
    }
}
