//! Ollama's store: manifests by host, namespace, name and tag, which name blobs by their hash.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Entry, Library, children, name_of, problem_of};

/// Bytes of a manifest: real ones have a thousandth.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;
const MODEL: &str = "application/vnd.ollama.image.model";
const ADAPTER: &str = "application/vnd.ollama.image.adapter";
const TENSOR: &str = "application/vnd.ollama.image.tensor";

/// Adds what a store holds.
pub fn read(root: &Path, library: &mut Library) {
    let manifests = root.join("manifests");
    for host in children(&manifests, library).into_iter().filter(|path| path.is_dir()) {
        for namespace in children(&host, library).into_iter().filter(|path| path.is_dir()) {
            for name in children(&namespace, library).into_iter().filter(|path| path.is_dir()) {
                for tag in children(&name, library).into_iter().filter(|path| path.is_file()) {
                    let parts = [&host, &namespace, &name, &tag].map(|path| name_of(path));
                    library.entries.extend(entry(root, &parts, &tag));
                }
            }
        }
    }
}

/// The model of a manifest; `None` for a file that is none, as desktops leave behind.
fn entry(root: &Path, [host, namespace, name, tag]: &[String; 4], manifest: &Path) -> Option<Entry> {
    if tag.starts_with('.') {
        return None;
    }
    let is_default = host == "registry.ollama.ai";
    let name = match (is_default, namespace == "library") {
        (true, true) => format!("ollama:{name}:{tag}"),
        (true, false) => format!("ollama:{namespace}/{name}:{tag}"),
        (false, _) => format!("ollama:{host}/{namespace}/{name}:{tag}"),
    };
    let (path, bytes, problem) = match blob(root, manifest) {
        Ok((path, bytes)) => (path, bytes, None),
        Err(problem) => (manifest.to_owned(), 0, Some(problem)),
    };
    let problem = problem.or_else(|| problem_of(&path));
    Some(Entry { name, path, bytes, problem })
}

/// The file of a manifest's model and its bytes, or why there is none.
fn blob(root: &Path, manifest: &Path) -> Result<(PathBuf, u64), String> {
    let mut text = String::new();
    let opened = fs::File::open(manifest).map(|file| file.take(MANIFEST_BYTES_MAX));
    let read = opened.and_then(|mut file| file.read_to_string(&mut text));
    read.map_err(|error| format!("its manifest cannot be read: {error}"))?;
    let manifest: Value =
        serde_json::from_str(&text).map_err(|error| format!("its manifest is damaged: {error}"))?;
    let layers = manifest["layers"].as_array().map_or(&[][..], Vec::as_slice);
    let of_type = |kind: &'static str| layers.iter().filter(move |layer| layer["mediaType"] == kind);
    if of_type(ADAPTER).next().is_some() {
        return Err("it has an adapter, which is not supported".into());
    }
    let models: Vec<&Value> = of_type(MODEL).collect();
    let [layer] = models[..] else {
        return Err(match models.len() {
            0 if of_type(TENSOR).next().is_some() => "it is kept as safetensors: GGUF is supported".into(),
            count => format!("its manifest has {count} layers with a model, 1 is wanted"),
        });
    };
    let digest = layer["digest"].as_str().unwrap_or_default();
    let hash = digest.strip_prefix("sha256:").or_else(|| digest.strip_prefix("sha256-"));
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let hash = hash.filter(|hash| hash.len() == 64 && hash.bytes().all(is_hex));
    let hash = hash.ok_or_else(|| "its manifest names no sha256 hash".to_owned())?;
    let blobs = root.join("blobs");
    let names = ["sha256-", "sha256:"].map(|prefix| blobs.join(format!("{prefix}{hash}")));
    let path = names.iter().find(|path| path.exists());
    let path = path.ok_or_else(|| format!("it is incomplete: {} is missing", names[0].display()))?;
    check_place(&blobs, path)?;
    let bytes = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?.len();
    match layer["size"].as_u64() {
        Some(wanted) if wanted != bytes => {
            Err(format!("it is incomplete: {} has {bytes} of {wanted} bytes", path.display()))
        }
        _ => Ok((path.clone(), bytes)),
    }
}

/// A blob is a file of the store, not a way out of it.
fn check_place(blobs: &Path, path: &Path) -> Result<(), String> {
    let real = |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
    match real(path)?.starts_with(real(blobs)?) {
        true => Ok(()),
        false => Err(format!("{} leads out of the store", path.display())),
    }
}
