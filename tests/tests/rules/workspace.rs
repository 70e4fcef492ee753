//! The tracked files of the tree and cargo's view of it.

use fanlight_tests::goldens::tests_folder;
use std::path::PathBuf;
use std::process::Command;

/// A tracked text file.
pub struct TextFile {
    /// Relative to the root, with `/`.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// What the rules look at.
pub struct Workspace {
    /// All tracked files that are UTF-8.
    pub files: Vec<TextFile>,
    /// `cargo metadata`, with all dependencies.
    pub metadata: serde_json::Value,
}

fn root() -> PathBuf {
    tests_folder().join("..")
}

fn output(program: &str, arguments: &[&str]) -> Vec<u8> {
    let result = Command::new(program).args(arguments).current_dir(root()).output();
    let result = result.unwrap_or_else(|e| panic!("{program} does not start: {e}"));
    let error = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{program} {}: {error}", arguments.join(" "));
    result.stdout
}

impl Workspace {
    pub fn load() -> Self {
        let listed = String::from_utf8(output("git", &["ls-files", "-z"])).expect("file names are UTF-8");
        let files = listed.split('\0').filter(|path| !path.is_empty()).filter_map(|path| {
            // Binary files and files deleted but still tracked have no text to check.
            let text = std::fs::read_to_string(root().join(path)).ok()?;
            Some(TextFile { path: path.to_owned(), text })
        });
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let metadata = output(&cargo, &["metadata", "--format-version", "1", "--locked"]);
        Self {
            files: files.collect(),
            metadata: serde_json::from_slice(&metadata).expect("cargo metadata is JSON"),
        }
    }

    /// The text of a tracked file.
    pub fn text_of(&self, path: &str) -> &str {
        let file = self.files.iter().find(|f| f.path == path);
        &file.unwrap_or_else(|| panic!("{path} is not tracked")).text
    }
}
