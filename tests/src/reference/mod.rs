//! A plain f64 forward pass of the supported architectures, straight from a file's metadata and tensor names.
//!
//! It is the tests' second opinion: slow, without batching tricks, sharing no code with the product. The
//! stored references of llama.cpp check it; it checks the engine on every shape for which no stored reference
//! exists.

mod config;
mod forward;
mod math;
mod rope;
mod sampler;

pub use config::{Config, LayerConfig};
pub use math::{int8_round_trip, log_softmax};
pub use rope::Rope;
pub use sampler::{Draw, gumbel};

use crate::blocks::BlockError;
use crate::gguf::{GgufReader, ReadError};

/// Why the reference cannot run a file.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// The file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A tensor could not be decoded.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The architecture is none that the reference knows.
    #[error("wanted a decoder that this reference knows, found {0:?}")]
    Architecture(String),
    /// A key that the architecture needs is absent or of another type.
    #[error("metadata key {0} is missing or has another type than wanted")]
    Key(String),
    /// A rope scaling rule that this reference does not know.
    #[error("wanted rope scaling none, linear or yarn, found {0:?}")]
    RopeScaling(String),
    /// A tensor that the architecture needs is absent.
    #[error("tensor {0} is missing")]
    MissingTensor(String),
    /// The file has tensors that no step of the forward pass reads, so the answer would not be the model's.
    #[error("tensor {0} is in the file, but the reference does not use it")]
    UnusedTensor(String),
    /// A tensor has another shape than the metadata implies.
    #[error("{name}: wanted {wanted_columns} columns, found {found_columns}")]
    Shape {
        /// Of the tensor.
        name: String,
        /// By the metadata.
        wanted_columns: usize,
        /// In the file.
        found_columns: usize,
    },
    /// A token id past the embedding table.
    #[error("token {token} is not below the vocabulary's {vocabulary_len}")]
    Token {
        /// The id given.
        token: u32,
        /// Rows of the embedding table.
        vocabulary_len: u64,
    },
}

/// Which roundings of the engine the reference imitates. With none it is the model's exact mathematics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Roundings {
    /// The input of a quantised matrix is rounded to int8 codes with one f32 scale per 32 elements.
    pub int8_activations: bool,
    /// Keys and values are rounded to halves.
    pub f16_kv: bool,
    /// GELU is that of llama.cpp's processors: argument and result are rounded to halves.
    pub f16_gelu: bool,
}

/// A model and the positions it has seen.
pub struct Reference {
    file: GgufReader,
    config: Config,
    roundings: Roundings,
    /// Per layer and position, all KV heads side by side.
    keys: Vec<Vec<Vec<f64>>>,
    values: Vec<Vec<Vec<f64>>>,
}

/// What one call computed, a row per token given.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Logits, `[token][vocabulary]`.
    pub logits: Vec<Vec<f64>>,
    /// The residual stream after each layer, `[layer][token][width]`.
    pub layer_outputs: Vec<Vec<Vec<f64>>>,
}

impl Reference {
    /// A model from an open file.
    ///
    /// # Errors
    /// [`ReferenceError`] when the metadata is not that of a supported architecture, or when the file holds
    /// tensors that the forward pass would ignore.
    pub fn new(mut file: GgufReader, roundings: Roundings) -> Result<Self, ReferenceError> {
        let config = Config::from_file(&mut file)?;
        if let Some(entry) = file.tensors.iter().find(|t| !config.uses(&t.name)) {
            return Err(ReferenceError::UnusedTensor(entry.name.clone()));
        }
        let layers = config.layers.len();
        Ok(Self { file, config, roundings, keys: vec![Vec::new(); layers], values: vec![Vec::new(); layers] })
    }

    /// A model from a file's path, without roundings.
    ///
    /// # Errors
    /// Any [`ReferenceError`].
    pub fn open(path: &std::path::Path) -> Result<Self, ReferenceError> {
        Self::new(GgufReader::open(path)?, Roundings::default())
    }

    /// A model from a file in memory.
    ///
    /// # Errors
    /// Any [`ReferenceError`].
    pub fn from_bytes(bytes: Vec<u8>, roundings: Roundings) -> Result<Self, ReferenceError> {
        Self::new(GgufReader::from_bytes(bytes)?, roundings)
    }

    /// Uses the rule of positions for a context of so many tokens, where there are two.
    #[must_use]
    pub fn for_context(mut self, context_len: usize) -> Self {
        if let Some((beyond, long)) = &self.config.long_rope
            && context_len > *beyond
        {
            self.config.ropes[0] = long.clone();
        }
        self
    }

    /// What the metadata says.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Positions seen so far.
    pub fn position(&self) -> usize {
        self.keys.first().map_or(0, Vec::len)
    }

    /// Forgets all positions from `position` on.
    pub fn truncate(&mut self, position: usize) {
        self.keys.iter_mut().chain(self.values.iter_mut()).for_each(|rows| rows.truncate(position));
    }

    /// Runs the prompt, then takes the likeliest token (the lowest id of equals) until an end token or
    /// `tokens_max`. Returns each token with its row of logits; an end token is the last one.
    ///
    /// # Errors
    /// Any [`ReferenceError`].
    pub fn greedy(
        &mut self,
        prompt: &[u32],
        end_tokens: &[u32],
        tokens_max: usize,
    ) -> Result<Vec<(u32, Vec<f64>)>, ReferenceError> {
        let mut out: Vec<(u32, Vec<f64>)> = Vec::new();
        let mut next = prompt.to_vec();
        while out.len() < tokens_max {
            let Some(logits) = self.forward(&next)?.logits.pop() else { break };
            let token = math::argmax(&logits);
            out.push((token, logits));
            if end_tokens.contains(&token) {
                break;
            }
            next = vec![token];
        }
        Ok(out)
    }
}
