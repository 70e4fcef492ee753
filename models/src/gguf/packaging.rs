//! Words of other packagers: the names that they use for known things and the values that they leave
//! unwritten, brought to those of the specification before anything reads the file.
//!
//! A value that stands under its own name already is never overwritten. What is left under a foreign name
//! after that is not known and is refused by who reads it.

use super::metadata::{Metadata, MetadataArray, MetadataValue};
use super::model_file::ModelTensor;

/// What a packager writes differently for one architecture.
struct Package {
    /// The name in the file, and the one that it is known by.
    architecture: (&'static str, &'static str),
    /// Keys below the architecture's prefix: (in the file, known by).
    keys: &'static [(&'static str, &'static str)],
    /// What the file does not say, below the prefix.
    defaults: &'static [(&'static str, f32)],
    /// The pre-tokenizer where the file names none.
    pre: Option<Pre>,
    /// The list of tokens may be longer than the embedding.
    has_surplus_tokens: bool,
}

/// A pre-tokenizer, and a token that the vocabulary has to have for it.
struct Pre {
    name: &'static str,
    token: &'static [u8],
}

const PLAIN: Package =
    Package { architecture: ("", ""), keys: &[], defaults: &[], pre: None, has_surplus_tokens: false };

/// Those of Ollama's library.
const PACKAGES: [Package; 6] = [
    Package {
        architecture: ("gemma3", "gemma3"),
        keys: &[("rope.global.freq_base", "rope.freq_base"), ("rope.local.freq_base", "rope.freq_base_swa")],
        defaults: &[("attention.layer_norm_rms_epsilon", 1e-6), ("rope.freq_base", 1e6)],
        has_surplus_tokens: true,
        ..PLAIN
    },
    Package {
        architecture: ("llama", "llama"),
        pre: Some(Pre { name: "llama-bpe", token: b"<|begin_of_text|>" }),
        ..PLAIN
    },
    Package {
        architecture: ("mistral3", "mistral3"),
        keys: &[
            ("rope.scaling.beta_fast", "rope.scaling.yarn_beta_fast"),
            ("rope.scaling.beta_slow", "rope.scaling.yarn_beta_slow"),
            ("rope.scaling.mscale_all_dim", "rope.scaling.yarn_log_multiplier"),
            ("rope.scaling_beta", "attention.temperature_scale"),
        ],
        pre: Some(Pre { name: "tekken", token: b"[INST]" }),
        ..PLAIN
    },
    Package { architecture: ("qwen25vl", "qwen2vl"), ..PLAIN },
    Package { architecture: ("gptoss", "gpt-oss"), ..PLAIN },
    Package { architecture: ("olmo3", "olmo2"), ..PLAIN },
];

/// gemma3 models of this context or a longer one stretch positions by 8; those packages do not say so.
const GEMMA3_STRETCHED_CONTEXT: u32 = 131_072;
const GEMMA3_STRETCH: f32 = 8.0;

/// The metadata of a model in the words of the specification.
pub(super) fn in_known_words(metadata: Metadata, tensors: &[ModelTensor]) -> Metadata {
    let Ok(Some(architecture)) = metadata.get_text("general.architecture") else { return metadata };
    let Some(package) = PACKAGES.iter().find(|package| package.architecture.0 == architecture) else {
        return metadata;
    };
    let mut words = Words { architecture: package.architecture.1, entries: metadata.into_entries() };
    words.rename_architecture(package.architecture.0);
    if package.architecture.1 == "gemma3" && !words.has("rope.freq_base") {
        words.stretch_gemma3();
    }
    package.keys.iter().for_each(|(foreign, known)| words.rename(foreign, known));
    for (key, value) in package.defaults {
        words.add(key, MetadataValue::F32(*value));
    }
    if let Some(pre) = &package.pre {
        words.name_pre_tokenizer(pre);
    }
    let embedding = tensors.iter().find(|tensor| tensor.info.name == "token_embd.weight");
    if let Some(rows) = embedding.and_then(|tensor| tensor.info.dims.get(1))
        && package.has_surplus_tokens
    {
        words.drop_tokens_from(usize::try_from(*rows).unwrap_or(usize::MAX));
    }
    Metadata::new(words.entries)
}

/// Entries on their way.
struct Words {
    architecture: &'static str,
    entries: Vec<(String, MetadataValue)>,
}

impl Words {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    fn get(&self, key: &str) -> Option<&MetadataValue> {
        self.entries.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    fn has(&self, name: &str) -> bool {
        self.get(&self.key(name)).is_some()
    }

    /// Adds a value that the file does not give.
    fn add(&mut self, name: &str, value: MetadataValue) {
        if !self.has(name) {
            self.entries.push((self.key(name), value));
        }
    }

    fn rename(&mut self, foreign: &str, known: &str) {
        let (foreign, name) = (self.key(foreign), self.key(known));
        let is_taken = self.has(known);
        if let Some((key, _)) = self.entries.iter_mut().find(|(key, _)| *key == foreign)
            && !is_taken
        {
            *key = name;
        }
    }

    fn rename_architecture(&mut self, foreign: &str) {
        if foreign == self.architecture {
            return;
        }
        let prefix = format!("{foreign}.");
        for (key, value) in &mut self.entries {
            if let Some(name) = key.strip_prefix(&prefix) {
                *key = format!("{}.{name}", self.architecture);
            } else if key == "general.architecture" {
                *value = MetadataValue::String(self.architecture.as_bytes().to_vec());
            }
        }
    }

    fn stretch_gemma3(&mut self) {
        let context = self.get(&self.key("context_length")).and_then(MetadataValue::as_u32);
        let is_scaled = self.has("rope.scaling.type") || self.has("rope.scaling.factor");
        if !is_scaled && context.is_some_and(|context| context >= GEMMA3_STRETCHED_CONTEXT) {
            self.add("rope.scaling.type", MetadataValue::String(b"linear".to_vec()));
            self.add("rope.scaling.factor", MetadataValue::F32(GEMMA3_STRETCH));
        }
    }

    fn name_pre_tokenizer(&mut self, pre: &Pre) {
        const PRE: &str = "tokenizer.ggml.pre";
        let text = |key: &str, wanted: &[u8]| match self.get(key) {
            Some(MetadataValue::String(text)) => text == wanted,
            _ => false,
        };
        let is_unnamed = self.get(PRE).is_none() || text(PRE, b"default");
        let has_token = match self.get("tokenizer.ggml.tokens") {
            Some(MetadataValue::Array(MetadataArray::String(tokens))) => {
                tokens.iter().any(|token| token == pre.token)
            }
            _ => false,
        };
        if is_unnamed && has_token && text("tokenizer.ggml.model", b"gpt2") {
            self.entries.retain(|(key, _)| key != PRE);
            self.entries.push((PRE.to_owned(), MetadataValue::String(pre.name.as_bytes().to_vec())));
        }
    }

    /// Drops what the embedding has no rows for.
    fn drop_tokens_from(&mut self, rows: usize) {
        for (key, value) in &mut self.entries {
            if let (
                "tokenizer.ggml.tokens" | "tokenizer.ggml.scores" | "tokenizer.ggml.token_type",
                MetadataValue::Array(list),
            ) = (key.as_str(), value)
            {
                list.truncate(rows);
            }
        }
    }
}
