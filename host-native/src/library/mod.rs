//! Models that other programs keep on this computer: Ollama, LM Studio and the Hugging Face cache.
//! Everything here only reads.

mod folders;
mod list;
mod ollama;
mod roots;

pub use list::{ListOptions, ShowOptions, list, show};

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use roots::Roots;

/// Entries of one folder that are looked at: far more than anybody keeps.
const ENTRIES_MAX: usize = 10_000;

/// A model of the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name by which commands find it: where it is kept, and what it is called there.
    pub name: String,
    /// Its file, or the first of its parts; possibly not there.
    pub path: PathBuf,
    /// Bytes of all parts.
    pub bytes: u64,
    /// Why it cannot be run.
    pub problem: Option<String>,
}

/// All that was found, and folders that could not be read.
#[derive(Debug, Default)]
pub struct Library {
    /// By name.
    pub entries: Vec<Entry>,
    /// Why something may be missing.
    pub notes: Vec<String>,
}

impl Library {
    /// Looks into the folders of this computer's programs.
    fn of_this_computer() -> Self {
        Self::read(&Roots::of_environment())
    }

    fn read(roots: &Roots) -> Self {
        let mut library = Self::default();
        roots.ollama.iter().for_each(|root| ollama::read(root, &mut library));
        roots.lm_studio.iter().for_each(|root| folders::read_lm_studio(root, &mut library));
        roots.hugging_face.iter().for_each(|root| folders::read_hugging_face(root, &mut library));
        library.entries.sort_by(|a, b| a.name.cmp(&b.name));
        library.entries.dedup_by(|later, first| later.name == first.name);
        library
    }

    /// The one entry of a name; without what names where it is kept, if only one has it.
    fn find(&self, name: &str) -> Result<&Entry> {
        let with_tag = format!("{name}:latest");
        let is = |entry: &Entry, wanted: &str| {
            let bare = entry.name.split_once(':').map_or("", |(_, bare)| bare);
            entry.name == wanted || bare == wanted
        };
        for wanted in [name, &with_tag] {
            let found: Vec<&Entry> = self.entries.iter().filter(|entry| is(entry, wanted)).collect();
            match found[..] {
                [] => {}
                [entry] => return Ok(entry),
                _ => {
                    let names: Vec<&str> = found.iter().map(|entry| entry.name.as_str()).collect();
                    bail!("{name} may be {}: name one of them in full", names.join(" or "));
                }
            }
        }
        bail!("no file and no model of the library is named {name}: fanlight list shows what there is")
    }

    fn note(&mut self, path: &Path, error: &std::io::Error) {
        // A folder that is not there is no news.
        if error.kind() != std::io::ErrorKind::NotFound {
            self.notes.push(format!("{}: {error}", path.display()));
        }
    }
}

/// The file that a path or a name of the library leads to. What exists as a path is one.
pub fn resolve(model: &Path) -> Result<PathBuf> {
    let Some(name) = model.to_str().filter(|_| !model.exists()) else { return Ok(model.to_owned()) };
    // A path to nothing is told as such: names have no ending of a file.
    if model.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf")) && !name.contains(':') {
        return Ok(model.to_owned());
    }
    let library = Library::of_this_computer();
    let entry = library.find(name)?;
    match &entry.problem {
        Some(problem) => bail!("{} cannot be run: {problem}", entry.name),
        None => Ok(entry.path.clone()),
    }
}

/// The paths in a folder, in the order of their names.
fn children(folder: &Path, library: &mut Library) -> Vec<PathBuf> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            library.note(folder, &error);
            return Vec::new();
        }
    };
    let mut paths: Vec<PathBuf> = entries.take(ENTRIES_MAX).flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Why a file is no model, by its first bytes.
fn problem_of(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut magic = [0; 4];
    match std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)) {
        Ok(()) if magic == *b"GGUF" => None,
        Ok(()) => Some("it is not a GGUF file".into()),
        Err(error) => Some(format!("{}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests;
