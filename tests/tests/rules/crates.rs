//! Which crate may depend on which, by `cargo metadata`.

use crate::Finding;
use crate::workspace::TextFile;
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// Crates of the workspace and what each may import from it, dev-dependencies included
/// (docs/architecture.md).
const EDGES: [(&str, &[&str]); 9] = [
    ("fanlight-messages", &[]),
    ("fanlight-models", &["fanlight-messages"]),
    ("fanlight-scheduler", &["fanlight-messages"]),
    ("fanlight-drafter", &["fanlight-messages"]),
    ("fanlight-telemetry", &["fanlight-messages"]),
    ("fanlight-gpu", &["fanlight-messages"]),
    ("fanlight-pager", &["fanlight-messages", "fanlight-models"]),
    ("fanlight-web", &["fanlight-messages", "fanlight-actors", "fanlight-gpu"]),
    ("fanlight-native", &["fanlight-messages", "fanlight-actors", "fanlight-gpu", "fanlight-drafter"]),
];
/// `actors` wires the rooms together and may import all of them but what computes: it is generic over that.
const ACTORS_MAY_IMPORT: [&str; 6] = [
    "fanlight-messages",
    "fanlight-models",
    "fanlight-scheduler",
    "fanlight-drafter",
    "fanlight-telemetry",
    "fanlight-pager",
];
/// Crates that see everything.
const TEST_CRATES: [&str; 2] = ["fanlight-tests", "xtask"];
/// What a room's own tests may import besides: writers, references, synthetic models.
const LIBRARY_OF_TESTS: &str = "fanlight-tests";
/// Dependencies that one room keeps to itself.
const KEPT: [(&str, &str); 3] =
    [("wgpu", "fanlight-gpu"), ("async-channel", "fanlight-actors"), ("tokenizers", "fanlight-models")];

fn text<'a>(json: &'a Json, key: &str) -> &'a str {
    json[key].as_str().unwrap_or_default()
}

fn list(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

fn may_import(package: &str) -> Option<&'static [&'static str]> {
    if package == "fanlight-actors" {
        return Some(&ACTORS_MAY_IMPORT);
    }
    EDGES.iter().find(|(name, _)| *name == package).map(|(_, edges)| *edges)
}

pub fn check(metadata: &Json, files: &[TextFile]) -> Vec<Finding> {
    let members: BTreeSet<&str> =
        list(&metadata["workspace_members"]).iter().filter_map(Json::as_str).collect();
    let packages = list(&metadata["packages"]).iter().filter(|p| members.contains(text(p, "id")));
    let packages: Vec<&Json> = packages.collect();
    let names: BTreeSet<&str> = packages.iter().map(|p| text(p, "name")).collect();
    let mut findings: Vec<Finding> =
        packages.iter().flat_map(|package| check_package(package, &names)).collect();
    let defaults: BTreeSet<&str> =
        list(&metadata["workspace_default_members"]).iter().filter_map(Json::as_str).collect();
    for package in &packages {
        if (text(package, "name") != "xtask") != defaults.contains(text(package, "id")) {
            let what = "default-members must hold every member but xtask";
            findings.push(Finding::new("default-members", text(package, "name"), what));
        }
    }
    let manifests = files.iter().filter(|f| f.path.ends_with("/Cargo.toml"));
    findings.extend(manifests.flat_map(|f| check_manifest(&f.path, &f.text)));
    findings
}

fn check_package(package: &Json, members: &BTreeSet<&str>) -> Vec<Finding> {
    let name = text(package, "name");
    if TEST_CRATES.contains(&name) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut add = |rule, what: String| findings.push(Finding::new(rule, name, what));
    let Some(allowed) = may_import(name) else {
        add("crate-edge", "is a crate that docs/architecture.md does not have".to_owned());
        return findings;
    };
    for dependency in list(&package["dependencies"]) {
        let (dependency, kind) = (text(dependency, "name"), text(dependency, "kind"));
        if dependency == LIBRARY_OF_TESTS && kind == "dev" {
            continue;
        }
        if members.contains(dependency) && !allowed.contains(&dependency) {
            add("crate-edge", format!("imports {dependency}; it may import [{}]", allowed.join(", ")));
        }
        if let Some((_, owner)) = KEPT.iter().find(|(kept, owner)| *kept == dependency && *owner != name) {
            add("kept-dependency", format!("imports {dependency}, which only {owner} may"));
        }
    }
    if package["features"].as_object().is_some_and(|features| !features.is_empty()) {
        add("features", "has cargo features; engine crates have none".to_owned());
    }
    findings
}

/// Every crate takes the workspace's lints, and only crates with code for targets have dependencies for
/// targets.
fn check_manifest(path: &str, manifest: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lints = manifest.split("[lints]").nth(1).map(str::trim_start);
    if !lints.is_some_and(|rest| rest.starts_with("workspace = true")) {
        findings.push(Finding::new("lints", path, "wanted [lints] workspace = true"));
    }
    let folders = ["models/", "gpu/", "actors/", "host-", "tests/"];
    if manifest.contains("target.'cfg(") && !folders.iter().any(|folder| path.starts_with(folder)) {
        let what = format!("has dependencies for single targets; only {} may", folders.join(", "));
        findings.push(Finding::new("cfg-target", path, what));
    }
    findings
}

#[cfg(test)]
mod examples {
    use super::{check_manifest, check_package, may_import};
    use serde_json::json;
    use std::collections::BTreeSet;

    fn rules(name: &str, dependencies: &[&str], features: serde_json::Value) -> Vec<&'static str> {
        let dependencies: Vec<_> = dependencies.iter().map(|d| json!({ "name": d })).collect();
        let package = json!({ "name": name, "dependencies": dependencies, "features": features });
        let members = ["messages", "models", "gpu", "actors", "tests"].map(|room| format!("fanlight-{room}"));
        let members: BTreeSet<&str> = members.iter().map(String::as_str).collect();
        check_package(&package, &members).iter().map(|f| f.rule).collect()
    }

    #[test]
    fn the_tests_library_is_for_tests_only() {
        let findings = |kind: Option<&str>| {
            let dependency = json!({ "name": "fanlight-tests", "kind": kind });
            let package = json!({ "name": "fanlight-actors", "dependencies": [dependency], "features": {} });
            check_package(&package, &BTreeSet::from(["fanlight-tests"])).len()
        };
        assert_eq!((findings(Some("dev")), findings(None)), (0, 1));
    }

    #[test]
    fn forbidden_edges_are_found() {
        assert!(rules("fanlight-pager", &["fanlight-models", "serde"], json!({})).is_empty());
        assert_eq!(rules("fanlight-models", &["fanlight-gpu"], json!({})), ["crate-edge"]);
        assert_eq!(rules("fanlight-messages", &["fanlight-models"], json!({})), ["crate-edge"]);
        assert_eq!(rules("fanlight-extra", &[], json!({})), ["crate-edge"]);
        assert_eq!(rules("fanlight-actors", &["wgpu"], json!({})), ["kept-dependency"]);
        assert_eq!(rules("fanlight-gpu", &["wgpu"], json!({ "fast": [] })), ["features"]);
        assert!(rules("fanlight-tests", &["wgpu", "fanlight-actors"], json!({})).is_empty());
    }

    #[test]
    fn edges_point_one_way() {
        let crates = [
            "messages",
            "models",
            "scheduler",
            "drafter",
            "telemetry",
            "gpu",
            "pager",
            "actors",
            "web",
            "native",
        ];
        for a in crates {
            for b in crates {
                let [a, b] = [a, b].map(|name| format!("fanlight-{name}"));
                let imports =
                    |from: &str, to: &str| may_import(from).is_some_and(|edges| edges.contains(&to));
                assert!(!(imports(&a, &b) && imports(&b, &a)), "{a} and {b} import each other");
            }
        }
    }

    #[test]
    fn bad_manifests_are_found() {
        let rules =
            |path: &str, text: &str| check_manifest(path, text).iter().map(|f| f.rule).collect::<Vec<_>>();
        assert!(rules("pager/Cargo.toml", "[lints]\nworkspace = true\n").is_empty());
        assert_eq!(rules("pager/Cargo.toml", "[package]\n"), ["lints"]);
        let target = "[target.'cfg(unix)'.dependencies]\nx = \"1\"\n[lints]\nworkspace = true\n";
        assert_eq!(rules("pager/Cargo.toml", target), ["cfg-target"]);
        assert!(rules("gpu/Cargo.toml", target).is_empty());
    }
}
