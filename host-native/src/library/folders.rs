//! Folders of model files: LM Studio's, and the Hugging Face cache, whose files are links.

use std::fs;
use std::path::{Path, PathBuf};

use fanlight_actors::source::part_names;

use super::{Entry, Library, children, name_of, problem_of};

/// Folders within a snapshot: some repositories keep each format in its own.
const DEPTH_MAX: u32 = 3;

/// Adds `publisher/model/*.gguf`.
pub fn read_lm_studio(root: &Path, library: &mut Library) {
    for publisher in folders(root, library) {
        for model in folders(&publisher, library) {
            let prefix = format!("lmstudio:{}/{}", name_of(&publisher), name_of(&model));
            add_files(&prefix, &model, DEPTH_MAX, library);
        }
    }
}

/// Adds `models--org--repo/snapshots/commit/*.gguf` of the newest commit.
pub fn read_hugging_face(root: &Path, library: &mut Library) {
    for repository in folders(root, library) {
        let name = name_of(&repository);
        let Some(name) = name.strip_prefix("models--") else { continue };
        let prefix = format!("hf:{}", name.replacen("--", "/", 1));
        if let Some(snapshot) = newest(&repository, library) {
            add_files(&prefix, &snapshot, DEPTH_MAX, library);
        }
    }
}

fn folders(folder: &Path, library: &mut Library) -> Vec<PathBuf> {
    children(folder, library).into_iter().filter(|path| path.is_dir()).collect()
}

/// The snapshot of the main branch, or the one that was written last.
fn newest(repository: &Path, library: &mut Library) -> Option<PathBuf> {
    let snapshots = repository.join("snapshots");
    let main = fs::read_to_string(repository.join("refs/main")).ok();
    // A name of hexadecimal digits cannot lead elsewhere.
    let main = main.filter(|commit| commit.trim().bytes().all(|byte| byte.is_ascii_hexdigit()));
    let main = main.map(|commit| snapshots.join(commit.trim())).filter(|path| path.is_dir());
    let written = |path: &PathBuf| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    main.or_else(|| folders(&snapshots, library).into_iter().max_by_key(written))
}

fn add_files(prefix: &str, folder: &Path, depth: u32, library: &mut Library) {
    for path in children(folder, library) {
        if path.is_dir() {
            if depth > 1 {
                add_files(prefix, &path, depth - 1, library);
            }
        } else if let Some(entry) = entry(prefix, &path) {
            library.entries.push(entry);
        }
    }
}

/// The model that a file is, or begins.
fn entry(prefix: &str, path: &Path) -> Option<Entry> {
    let file = name_of(path);
    let stem = file.strip_suffix(".gguf")?;
    // The eyes of another model.
    if stem.starts_with("mmproj") {
        return None;
    }
    let parts = part_names(&file);
    if parts.first() != Some(&file) {
        return None;
    }
    let mut bytes = 0;
    let mut problem = None;
    for part in &parts {
        match fs::metadata(path.with_file_name(part)) {
            Ok(metadata) => bytes += metadata.len(),
            Err(_) => problem = problem.or_else(|| Some(format!("it is incomplete: {part} is missing"))),
        }
    }
    let problem = problem.or_else(|| problem_of(path));
    let stem = stem.split_once("-00001-of-").map_or(stem, |(stem, _)| stem);
    Some(Entry { name: format!("{prefix}/{stem}"), path: path.to_owned(), bytes, problem })
}
