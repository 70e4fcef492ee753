//! The workload of page-grounded prompts that speculative decoding is measured with: `tests/workload/`.
//!
//! It reads and composes; it runs no model and keeps no outputs.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::goldens::tests_folder;

/// Most tokens of a message by SmolLM2's tokenizer: with the chat template and the reply it must fit a
/// context of 2,048, which every machine that is measured can hold.
pub const MESSAGE_TOKENS_MAX: usize = 1536;
/// Most tokens of a recorded reply: enough for every task, and a whole recording stays affordable.
pub const REPLY_TOKENS_MAX: usize = 128;
/// Largest `prompts.jsonl`; it has about 30 KB, and a file far beyond that is not ours.
pub const PROMPTS_BYTES_MAX: u64 = 1 << 20;
/// Largest page: at one byte a token, ten times what a message may have.
pub const PAGE_BYTES_MAX: u64 = 16 << 10;

/// Name of the list of prompts in the workload's folder.
const PROMPTS_FILE: &str = "prompts.jsonl";
/// Name of the folder of pages.
const PAGES_FOLDER: &str = "pages";
/// The keys of a line, all of them strings, all required.
const KEYS: [&str; 6] = ["id", "class", "page", "instruction", "session", "split"];

/// What a prompt asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskClass {
    /// A few sentences on the page.
    Summarise,
    /// A list.
    Bullets,
    /// JSON.
    Extract,
    /// A question whose answer is on the page.
    Answer,
    /// Part of the page, edited.
    Rewrite,
    /// A function.
    Code,
    /// A word problem over numbers on the page.
    Arithmetic,
}

impl TaskClass {
    /// All classes.
    pub const ALL: [Self; 7] = [
        Self::Summarise,
        Self::Bullets,
        Self::Extract,
        Self::Answer,
        Self::Rewrite,
        Self::Code,
        Self::Arithmetic,
    ];

    /// Its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Summarise => "summarise",
            Self::Bullets => "bullets",
            Self::Extract => "extract",
            Self::Answer => "answer",
            Self::Rewrite => "rewrite",
            Self::Code => "code",
            Self::Arithmetic => "arithmetic",
        }
    }
}

/// What a prompt may be used for: parameters are learned on one half and tested on the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Split {
    /// Parameters may be chosen by it.
    Learn,
    /// Only measured.
    Test,
}

impl Split {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Learn, Self::Test];

    /// Its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Learn => "learn",
            Self::Test => "test",
        }
    }
}

/// One request of a visitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadPrompt {
    /// Unique name.
    pub id: String,
    /// What it asks for.
    pub class: TaskClass,
    /// File name in `pages/`.
    pub page: String,
    /// What to do with the page.
    pub instruction: String,
    /// Requests of one visitor in a row share this; their order is that of the file.
    pub session: String,
    /// Learned from or tested on.
    pub split: Split,
    /// The user message: instruction, an empty line, the page as it is.
    pub message: String,
}

/// Why the workload could not be read.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A file is not there, not readable or not UTF-8.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is larger than any of the workload should be.
    #[error("{} has more than the {limit_bytes} bytes allowed; shorten it", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// Most bytes.
        limit_bytes: u64,
    },
    /// A line is not JSON.
    #[error("prompts.jsonl, line {line}: {source}")]
    Json {
        /// Counted from 1.
        line: usize,
        /// Where it stops being JSON.
        source: serde_json::Error,
    },
    /// A line is not an object with exactly the six keys.
    #[error("prompts.jsonl, line {line}: wanted an object with the strings {}; {problem}", KEYS.join(", "))]
    Fields {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A class or split that does not exist.
    #[error("prompts.jsonl, line {line}: {key} is {found:?}; wanted one of {wanted}")]
    UnknownName {
        /// Counted from 1.
        line: usize,
        /// `class` or `split`.
        key: &'static str,
        /// What the line says.
        found: String,
        /// The names there are.
        wanted: String,
    },
    /// A page that is not a plain file name.
    #[error("prompts.jsonl, line {line}: page is {found:?}; wanted the name of a file in pages/, no path")]
    PageName {
        /// Counted from 1.
        line: usize,
        /// What the line says.
        found: String,
    },
}

/// The prompts of `tests/workload/`.
#[derive(Debug, Clone, Copy)]
pub struct Workload;

impl Workload {
    /// The folder with the prompts and pages.
    pub fn folder() -> PathBuf {
        tests_folder().join("workload")
    }

    /// All prompts in the order of the file, each with its page.
    ///
    /// # Errors
    /// [`WorkloadError`] for the first line or page that cannot be used.
    pub fn load() -> Result<Vec<WorkloadPrompt>, WorkloadError> {
        Self::load_from(&Self::folder())
    }

    /// The same for another folder of this form. Empty lines are skipped.
    ///
    /// # Errors
    /// [`WorkloadError`] for the first line or page that cannot be used.
    pub fn load_from(folder: &Path) -> Result<Vec<WorkloadPrompt>, WorkloadError> {
        let text = read_bounded(&folder.join(PROMPTS_FILE), PROMPTS_BYTES_MAX)?;
        let lines = (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty());
        lines.map(|(line, text)| prompt(folder, line, text)).collect()
    }
}

/// A UTF-8 file of at most `limit_bytes`.
fn read_bounded(path: &Path, limit_bytes: u64) -> Result<String, WorkloadError> {
    let io = |source| WorkloadError::Io { path: path.to_owned(), source };
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(limit_bytes + 1).read_to_string(&mut text)).map_err(io)?;
    if text.len() as u64 > limit_bytes {
        return Err(WorkloadError::TooLarge { path: path.to_owned(), limit_bytes });
    }
    Ok(text)
}

fn prompt(folder: &Path, line: usize, text: &str) -> Result<WorkloadPrompt, WorkloadError> {
    let value: Value = serde_json::from_str(text).map_err(|source| WorkloadError::Json { line, source })?;
    let [id, class, page, instruction, session, split] = fields(line, &value)?;
    let class = one_of(line, "class", class, &TaskClass::ALL, TaskClass::name)?;
    let split = one_of(line, "split", split, &Split::ALL, Split::name)?;
    let is_plain = Path::new(page).file_name().is_some_and(|name| name == page) && !page.contains('\\');
    if !is_plain {
        return Err(WorkloadError::PageName { line, found: page.to_owned() });
    }
    let page_text = read_bounded(&folder.join(PAGES_FOLDER).join(page), PAGE_BYTES_MAX)?;
    Ok(WorkloadPrompt {
        id: id.to_owned(),
        class,
        page: page.to_owned(),
        instruction: instruction.to_owned(),
        session: session.to_owned(),
        split,
        message: format!("{instruction}\n\n{page_text}"),
    })
}

/// The values of [`KEYS`], in that order.
fn fields(line: usize, value: &Value) -> Result<[&str; KEYS.len()], WorkloadError> {
    let problem = |problem| WorkloadError::Fields { line, problem };
    let object = value.as_object().ok_or_else(|| problem("it is no object".to_owned()))?;
    if let Some(key) = object.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(problem(format!("it has {key:?} as well")));
    }
    let mut values = [""; KEYS.len()];
    for (value, key) in values.iter_mut().zip(KEYS) {
        let found = object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        *value = found.ok_or_else(|| problem(format!("{key} is missing, empty or not a string")))?;
    }
    Ok(values)
}

/// The item of that name.
fn one_of<T: Copy>(
    line: usize,
    key: &'static str,
    found: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, WorkloadError> {
    all.iter().copied().find(|item| name(*item) == found).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|item| name(*item)).collect();
        WorkloadError::UnknownName { line, key, found: found.to_owned(), wanted: names.join(", ") }
    })
}
