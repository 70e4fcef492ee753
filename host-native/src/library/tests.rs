//! Public reports about libraries of models, each on a store that a test writes.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// A folder of one test, empty.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("fanlight-library-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn write(path: PathBuf, text: &str) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

const MODEL: &str = "application/vnd.ollama.image.model";

fn manifest(layers: &[(&str, &str, u64)]) -> String {
    let layer = |(kind, digest, size): &(&str, &str, u64)| {
        let (kind, digest, size) = (*kind, *digest, *size);
        serde_json::json!({ "mediaType": kind, "digest": digest, "size": size })
    };
    let layers: Vec<_> = layers.iter().map(layer).collect();
    serde_json::json!({ "schemaVersion": 2, "config": { "digest": "sha256:0" }, "layers": layers })
        .to_string()
}

fn hash(digit: char) -> String {
    digit.to_string().repeat(64)
}

/// A store with one model under a name, whose manifest has these layers.
fn store(root: &Path, name: &str, layers: &[(&str, &str, u64)]) {
    write(root.join("manifests/registry.ollama.ai/library").join(name), &manifest(layers));
}

fn ollama(root: &Path) -> Library {
    Library::read(&Roots { ollama: vec![root.to_owned()], ..Roots::default() })
}

fn problem(library: &Library, name: &str) -> String {
    let entry = library.find(name).unwrap();
    entry.problem.clone().unwrap_or_default()
}

#[test]
fn g11_blobs_of_both_styles_are_found_and_nothing_is_written() {
    let root = folder("g11");
    store(&root, "new/latest", &[(MODEL, &format!("sha256:{}", hash('a')), 6)]);
    store(&root, "old/latest", &[(MODEL, &format!("sha256:{}", hash('b')), 6)]);
    write(root.join(format!("blobs/sha256-{}", hash('a'))), "GGUF..");
    write(root.join(format!("blobs/sha256:{}", hash('b'))), "GGUF..");
    let before = fs::read_to_string(root.join("manifests/registry.ollama.ai/library/old/latest")).unwrap();
    let library = ollama(&root);
    for name in ["ollama:new:latest", "new", "old:latest"] {
        assert_eq!(
            (library.find(name).unwrap().bytes, problem(&library, name)),
            (6, String::new()),
            "{name}"
        );
    }
    let after = fs::read_to_string(root.join("manifests/registry.ollama.ai/library/old/latest")).unwrap();
    assert_eq!(before, after);
    assert!(library.find("other").unwrap_err().to_string().contains("fanlight list"));
}

#[test]
fn g12_a_model_that_is_not_whole_is_listed_with_the_reason() {
    let root = folder("g12");
    store(&root, "absent/latest", &[(MODEL, &format!("sha256:{}", hash('a')), 6)]);
    store(&root, "short/latest", &[(MODEL, &format!("sha256:{}", hash('b')), 7)]);
    write(root.join(format!("blobs/sha256-{}", hash('b'))), "GGUF..");
    write(root.join(format!("blobs/sha256-{}-partial", hash('a'))), "GGUF..");
    let library = ollama(&root);
    assert!(problem(&library, "absent").contains("is missing"));
    let short = problem(&library, "short");
    assert!(short.contains("6 of 7 bytes"), "{short}");
    assert_eq!(library.entries.len(), 2, "partial files are no models");
}

#[test]
fn g13_every_host_and_namespace_is_listed_and_only_the_model_counts() {
    let root = folder("g13");
    let digest = format!("sha256:{}", hash('a'));
    write(root.join(format!("blobs/sha256-{}", hash('a'))), "GGUF..");
    let whole = manifest(&[("application/vnd.ollama.image.template", "x", 1), (MODEL, &digest, 6)]);
    write(root.join("manifests/hf.co/u/r/Q4_K_M"), &whole);
    write(root.join("manifests/registry.ollama.ai/someone/m/1b"), &whole);
    write(root.join("manifests/.DS_Store"), "junk");
    write(root.join("manifests/registry.ollama.ai/library/m/.DS_Store"), "junk");
    store(&root, "two/latest", &[(MODEL, &digest, 6), (MODEL, &digest, 6)]);
    store(
        &root,
        "adapted/latest",
        &[(MODEL, &digest, 6), ("application/vnd.ollama.image.adapter", &digest, 6)],
    );
    let library = ollama(&root);
    let names: Vec<&str> = library.entries.iter().map(|entry| entry.name.as_str()).collect();
    let wanted =
        ["ollama:adapted:latest", "ollama:hf.co/u/r:Q4_K_M", "ollama:someone/m:1b", "ollama:two:latest"];
    assert_eq!(names, wanted);
    assert_eq!(problem(&library, "hf.co/u/r:Q4_K_M"), "");
    assert!(problem(&library, "two").contains("2 layers"));
    assert!(problem(&library, "adapted").contains("adapter"));
}

#[test]
fn g14_the_store_is_where_its_owner_says() {
    let home = PathBuf::from("/home/someone");
    let roots = |value: Option<&str>| {
        let variable = |name: &str| value.filter(|_| name == "OLLAMA_MODELS").map(str::to_owned);
        Roots::of(variable, Some(home.clone())).ollama
    };
    for value in ["~/my models", "'~/my models'", "\"/home/someone/my models\"", " /home/someone/my models/ "]
    {
        assert_eq!(roots(Some(value)), [home.join("my models")], "{value}");
    }
    let usual = [home.join(".ollama/models"), "/usr/share/ollama/.ollama/models".into()];
    assert_eq!(roots(None), usual);
    assert_eq!(roots(Some("")), usual);
    let root = folder("g14");
    write(root.join("manifests"), "a file where a folder is wanted");
    let library = ollama(&root);
    assert!(library.entries.is_empty() && library.notes[0].contains("manifests"), "{:?}", library.notes);
    assert!(ollama(&root.join("nowhere")).notes.is_empty());
}

#[test]
fn g15_a_hash_is_no_path() {
    let root = folder("g15");
    let upper = format!("sha256:{}", hash('A'));
    let short = format!("sha256:{}", &hash('a')[1..]);
    let digests = ["sha256:../../../../etc/hostname", "sha256-..\\..\\x", &short, &upper, "", "md5:0"];
    for (i, digest) in digests.iter().enumerate() {
        store(&root, &format!("m{i}/latest"), &[(MODEL, digest, 6)]);
    }
    let library = ollama(&root);
    for (i, digest) in digests.iter().enumerate() {
        assert!(problem(&library, &format!("m{i}")).contains("sha256"), "{digest}");
    }
}

#[cfg(unix)]
#[test]
fn g15_a_link_out_of_the_store_is_not_followed_and_a_linked_store_is() {
    let root = folder("g15-link");
    let outside = write(folder("g15-outside").join("secret"), "GGUF..");
    store(&root, "m/latest", &[(MODEL, &format!("sha256:{}", hash('a')), 6)]);
    store(&root, "n/latest", &[(MODEL, &format!("sha256:{}", hash('b')), 6)]);
    write(root.join(format!("blobs/sha256-{}", hash('b'))), "GGUF..");
    std::os::unix::fs::symlink(outside, root.join(format!("blobs/sha256-{}", hash('a')))).unwrap();
    let library = ollama(&root);
    assert!(problem(&library, "m").contains("out of the store"));
    let linked = folder("g15-linked").join("store");
    std::os::unix::fs::symlink(&root, &linked).unwrap();
    assert_eq!(problem(&ollama(&linked), "n"), "");
}

#[test]
fn files_of_lm_studio_are_named_by_publisher_and_model_and_parts_are_one() {
    let root = folder("lm-studio");
    write(root.join("p/m/a-Q4.gguf"), "GGUF..");
    write(root.join("p/m/mmproj-a.gguf"), "GGUF..");
    write(root.join("p/m/notes.txt"), "x");
    write(root.join("p/big/b-00001-of-00002.gguf"), "GGUF..");
    write(root.join("p/big/b-00002-of-00002.gguf"), "GGUF....");
    write(root.join("p/torn/c-00001-of-00002.gguf"), "GGUF..");
    write(root.join("p/other/d.gguf"), "PK..");
    let library = Library::read(&Roots { lm_studio: vec![root], ..Roots::default() });
    let found: Vec<(&str, u64)> = library.entries.iter().map(|e| (e.name.as_str(), e.bytes)).collect();
    let wanted = [
        ("lmstudio:p/big/b", 14),
        ("lmstudio:p/m/a-Q4", 6),
        ("lmstudio:p/other/d", 4),
        ("lmstudio:p/torn/c", 6),
    ];
    assert_eq!(found, wanted);
    assert_eq!(problem(&library, "p/big/b"), "");
    assert!(problem(&library, "p/torn/c").contains("c-00002-of-00002.gguf is missing"));
    assert!(problem(&library, "p/other/d").contains("not a GGUF"));
}

#[test]
fn the_main_snapshot_of_the_hugging_face_cache_is_listed() {
    let root = folder("hugging-face");
    let repository = root.join("models--org--repo-GGUF");
    write(repository.join("snapshots/aaaa/m-Q8_0.gguf"), "GGUF..");
    write(repository.join("snapshots/bbbb/m-Q4_0.gguf"), "GGUF..");
    write(repository.join("refs/main"), "bbbb\n");
    write(root.join("datasets--x--y/snapshots/aaaa/z.gguf"), "GGUF..");
    let library = Library::read(&Roots { hugging_face: vec![root], ..Roots::default() });
    let names: Vec<&str> = library.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["hf:org/repo-GGUF/m-Q4_0"]);
}
