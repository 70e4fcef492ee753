//! Where programs of this computer keep models.

use std::env;
use std::path::PathBuf;

/// Folders to look into, those of one program from the newest place to the oldest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roots {
    pub ollama: Vec<PathBuf>,
    pub lm_studio: Vec<PathBuf>,
    pub hugging_face: Vec<PathBuf>,
}

impl Roots {
    /// Those of this computer.
    pub fn of_environment() -> Self {
        let home = env::var(if cfg!(windows) { "USERPROFILE" } else { "HOME" }).ok().map(PathBuf::from);
        Self::of(|name| env::var(name).ok(), home)
    }

    /// Those that these variables and this home folder name.
    pub fn of(variable: impl Fn(&str) -> Option<String>, home: Option<PathBuf>) -> Self {
        let set = |name: &str| variable(name).and_then(|value| expanded(&value, home.clone()));
        let at_home = |path: &str| home.as_ref().map(|home| home.join(path));
        let ollama = match set("OLLAMA_MODELS") {
            Some(folder) => vec![folder],
            None => {
                let service = PathBuf::from("/usr/share/ollama/.ollama/models");
                at_home(".ollama/models").into_iter().chain([service]).collect()
            }
        };
        let lm_studio = [".lmstudio/models", ".cache/lm-studio/models"];
        let hub = set("HF_HUB_CACHE").or_else(|| set("HF_HOME").map(|folder| folder.join("hub")));
        Self {
            ollama,
            lm_studio: lm_studio.into_iter().filter_map(at_home).collect(),
            hugging_face: hub.or_else(|| at_home(".cache/huggingface/hub")).into_iter().collect(),
        }
    }
}

/// A folder as people write it into a variable: perhaps in quotes, perhaps with `~` for the home folder,
/// which no shell has replaced there.
fn expanded(value: &str, home: Option<PathBuf>) -> Option<PathBuf> {
    let value = value.trim().trim_matches(['"', '\'']);
    match value.strip_prefix('~') {
        _ if value.is_empty() => None,
        Some("") => home,
        Some(rest) if rest.starts_with(['/', '\\']) => home.map(|home| home.join(&rest[1..])),
        _ => Some(PathBuf::from(value)),
    }
}
