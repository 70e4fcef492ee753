//! Helpers of the `text_*` tests: real models' metadata, goldens, and vocabularies made for one report.
#![allow(dead_code, reason = "each test binary uses some of them")]

use fanlight_messages::reply::Think;
use fanlight_models::gguf::{HeaderReader, HeaderStep, Metadata, MetadataArray, MetadataValue};
use fanlight_models::text::Tokenizer;
use fanlight_models::text::template::{
    ChatMessage, ChatOptions, ChatTemplate, LocalTime, Role, TemplateError,
};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A golden of `tests/goldens`, parsed.
pub fn golden(name: &str) -> serde_json::Value {
    let path = workspace().join("tests/goldens").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// The metadata of a real model in `$FANLIGHT_MODELS` (default: `models-cache`). `target` is the make target
/// that fetches it.
pub fn real_metadata(file_name: &str, target: &str) -> Metadata {
    let folder =
        std::env::var_os("FANLIGHT_MODELS").map_or_else(|| workspace().join("models-cache"), PathBuf::from);
    let path = folder.join(file_name);
    let mut file = File::open(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; `make {target}` fetches the model", path.display()));
    let mut reader = HeaderReader::new(file.metadata().unwrap().len());
    loop {
        let range = reader.wanted_range();
        let mut bytes = vec![0; (range.end - range.start) as usize];
        file.seek(SeekFrom::Start(range.start)).unwrap();
        file.read_exact(&mut bytes).unwrap();
        match reader.feed(&bytes).unwrap() {
            HeaderStep::More(next) => reader = next,
            HeaderStep::Done(header) => return header.metadata,
        }
    }
}

/// Whether the tests with the optional models run: `make test-models` sets the variable.
pub fn wants_all_models() -> bool {
    std::env::var("FANLIGHT_MODELS_ALL").is_ok_and(|value| value == "1")
}

/// A metadata string.
pub fn string(text: &str) -> MetadataValue {
    MetadataValue::String(text.as_bytes().to_vec())
}

/// A metadata array of strings.
pub fn strings<T: AsRef<[u8]>>(items: &[T]) -> MetadataValue {
    MetadataValue::Array(MetadataArray::String(items.iter().map(|s| s.as_ref().to_vec()).collect()))
}

/// Tokenizer metadata under construction.
#[derive(Clone, Default)]
pub struct Fixture {
    pub pieces: Vec<Vec<u8>>,
    pub kinds: Vec<i32>,
    pub scores: Vec<f32>,
    pub merges: Vec<Vec<u8>>,
    pub entries: Vec<(String, MetadataValue)>,
}

pub const NORMAL: i32 = 1;
pub const UNKNOWN: i32 = 2;
pub const CONTROL: i32 = 3;
pub const USER_DEFINED: i32 = 4;
pub const UNUSED: i32 = 5;
pub const BYTE: i32 = 6;

/// The byte-level alphabet, written out independently of the crate.
pub fn byte_level(text: &[u8]) -> String {
    let mut table = Vec::new();
    let mut extra = 0;
    for byte in 0..=255_u32 {
        let printable = (33..=126).contains(&byte) || (161..=172).contains(&byte) || byte >= 174;
        table.push(if printable { byte } else { 256 + extra });
        extra += u32::from(!printable);
    }
    text.iter().map(|&byte| char::from_u32(table[byte as usize]).unwrap()).collect()
}

impl Fixture {
    /// A byte-level vocabulary: 256 bytes with ids equal to their values, then one piece per merge.
    pub fn byte_pair(pre: Option<&str>, merges: &[(&str, &str)]) -> Self {
        let mut fixture = Self::default();
        fixture.entry("tokenizer.ggml.model", string("gpt2"));
        if let Some(pre) = pre {
            fixture.entry("tokenizer.ggml.pre", string(pre));
        }
        for byte in 0..=255_u8 {
            fixture.piece(byte_level(&[byte]), NORMAL, 0.0);
        }
        for (left, right) in merges {
            let (left, right) = (byte_level(left.as_bytes()), byte_level(right.as_bytes()));
            fixture.merges.push(format!("{left} {right}").into_bytes());
            fixture.piece(left + &right, NORMAL, 0.0);
        }
        fixture
    }

    /// A SentencePiece vocabulary of ordinary pieces; `▁` is written as in files.
    pub fn sentencepiece(pieces: &[(&str, f32)]) -> Self {
        let mut fixture = Self::default();
        fixture.entry("tokenizer.ggml.model", string("llama"));
        for (piece, score) in pieces {
            fixture.piece(piece, NORMAL, *score);
        }
        fixture
    }

    /// Adds `<0x00>` to `<0xFF>`.
    pub fn with_byte_pieces(mut self) -> Self {
        for byte in 0..=255_u8 {
            self.piece(format!("<0x{byte:02X}>"), BYTE, 0.0);
        }
        self
    }

    /// Adds a piece and returns its id.
    pub fn piece(&mut self, text: impl AsRef<[u8]>, kind: i32, score: f32) -> u32 {
        self.pieces.push(text.as_ref().to_vec());
        self.kinds.push(kind);
        self.scores.push(score);
        self.pieces.len() as u32 - 1
    }

    /// Adds a metadata entry.
    pub fn entry(&mut self, key: &str, value: MetadataValue) -> &mut Self {
        self.entries.push((key.to_owned(), value));
        self
    }

    /// The metadata.
    pub fn metadata(&self) -> Metadata {
        let mut entries = self.entries.clone();
        let mut add = |key: &str, value| entries.push((key.to_owned(), value));
        add("tokenizer.ggml.tokens", strings(&self.pieces));
        add("tokenizer.ggml.token_type", MetadataValue::Array(MetadataArray::I32(self.kinds.clone())));
        add("tokenizer.ggml.scores", MetadataValue::Array(MetadataArray::F32(self.scores.clone())));
        if !self.merges.is_empty() || self.entries.iter().any(|(_, v)| *v == string("gpt2")) {
            add("tokenizer.ggml.merges", strings(&self.merges));
        }
        Metadata::new(entries)
    }

    /// The tokenizer, which must load.
    pub fn tokenizer(&self) -> Tokenizer {
        Tokenizer::from_metadata(&self.metadata()).unwrap()
    }
}

/// Options of a plain chat request.
pub fn options() -> ChatOptions {
    let now = LocalTime { year: 2026, month: 3, day: 7, hour: 9, minute: 5, second: 2 };
    ChatOptions { add_generation_prompt: true, think: Think::Off, tools: None, now }
}

/// A ChatML vocabulary with control and user-defined pieces, and the ids of those.
pub struct ChatMl {
    pub fixture: Fixture,
    pub start: u32,
    pub end: u32,
    pub tool_call: u32,
}

/// The template the ChatML families share, with tool calls.
pub const CHATML: &str = "{% for message in messages %}\
{{ '<|im_start|>' + message.role + '\\n' + message.content }}\
{% for call in message.tool_calls %}{{ '<tool_call>' + (call.function | tojson) }}{% endfor %}\
{{ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

impl ChatMl {
    /// With this template.
    pub fn new(template: &str) -> Self {
        let mut fixture = Fixture::byte_pair(Some("qwen2"), &[("h", "i"), ("hi", "!")]);
        let start = fixture.piece("<|im_start|>", CONTROL, 0.0);
        let end = fixture.piece("<|im_end|>", CONTROL, 0.0);
        let tool_call = fixture.piece("<tool_call>", USER_DEFINED, 0.0);
        fixture.entry("tokenizer.ggml.eos_token_id", MetadataValue::U32(end));
        fixture.entry("tokenizer.chat_template", string(template));
        Self { fixture, start, end, tool_call }
    }

    /// Tokenizer and template, which must load.
    pub fn load(&self) -> (Tokenizer, ChatTemplate) {
        let metadata = self.fixture.metadata();
        let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
        let template = ChatTemplate::from_metadata(&metadata, &tokenizer).unwrap();
        (tokenizer, template)
    }
}

/// Renders with a template made for a test, which must load.
pub fn render(template: &str, messages: &[ChatMessage]) -> Result<String, TemplateError> {
    let (_, template) = ChatMl::new(template).load();
    template.render(messages, &options()).map(|prompt| prompt.text().to_owned())
}

/// Messages that are only text.
pub fn messages(list: &[(Role, &str)]) -> Vec<ChatMessage> {
    list.iter().map(|&(role, content)| ChatMessage::new(role, content)).collect()
}
