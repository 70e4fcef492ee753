//! What a person wants to know about a model file before loading it. Works for unsupported architectures too.

use std::collections::BTreeMap;
use std::fmt;

use fanlight_messages::TensorType;

use super::limits::LAYERS_MAX;
use super::tensors::{Place, place_of, trunk_layers};
use crate::gguf::{MetadataError, MetadataValue, ModelFile};

/// A model file at a glance. `None` where the file does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSummary {
    /// `general.architecture`.
    pub architecture: Option<String>,
    /// `general.name`.
    pub name: Option<String>,
    /// Files.
    pub shards: usize,
    /// Weights of the language model.
    pub parameters: u64,
    /// Their bytes in the file.
    pub weight_bytes: u64,
    /// Tensors and bytes of each format, in the order of their ids.
    pub types: Vec<TypeUse>,
    /// Tensors of other models in the file and of prediction blocks: never fetched, not counted above.
    pub skipped_tensors: u64,
    /// Longest context, in tokens.
    pub context_len: Option<u32>,
    /// Layers that are run, prediction blocks excluded.
    pub layers: Option<u32>,
    /// Elements of the residual stream.
    pub width: Option<u32>,
    /// Query heads, one entry when all layers agree.
    pub heads: Vec<u32>,
    /// Key-value heads, one entry when all layers agree.
    pub kv_heads: Vec<u32>,
    /// Token ids.
    pub vocabulary_len: Option<u64>,
}

/// Use of one weight format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeUse {
    /// The format.
    pub tensor_type: TensorType,
    /// Tensors.
    pub tensors: u64,
    /// Their bytes in the file.
    pub bytes: u64,
}

impl ModelSummary {
    /// Sums up a model.
    ///
    /// # Errors
    /// A metadata entry of the wrong type.
    pub fn new(model: &ModelFile) -> Result<Self, MetadataError> {
        let metadata = &model.metadata;
        let text = |key: &str| Ok(metadata.get_text(key)?.map(|text| text.into_owned()));
        let architecture: Option<String> = text("general.architecture")?;
        let key = |name: &str| format!("{}.{name}", architecture.as_deref().unwrap_or_default());
        let block_count = metadata.get_u32(&key("block_count"))?;
        let predicted = metadata.get_u32(&key("nextn_predict_layers"))?.unwrap_or(0);
        let layers = block_count.map(|count| trunk_layers(model, count, predicted));
        let heads = head_counts(model, &key("attention.head_count"), layers)?;
        let kv_heads = head_counts(model, &key("attention.head_count_kv"), layers)?;
        let rows = model.tensor("token_embd.weight").and_then(|tensor| tensor.info.dims.get(1).copied());
        let mut summary = Self {
            name: text("general.name")?,
            shards: model.shards.len(),
            parameters: 0,
            weight_bytes: 0,
            types: Vec::new(),
            skipped_tensors: 0,
            context_len: metadata.get_u32(&key("context_length"))?,
            layers,
            width: metadata.get_u32(&key("embedding_length"))?,
            kv_heads: if kv_heads.is_empty() { heads.clone() } else { kv_heads },
            heads,
            vocabulary_len: rows,
            architecture,
        };
        summary.count_tensors(model);
        Ok(summary)
    }

    fn count_tensors(&mut self, model: &ModelFile) {
        let mut types = BTreeMap::new();
        for tensor in model.tensors() {
            let counts = match place_of(&tensor.info.name) {
                Place::Sibling => false,
                Place::Text => true,
                Place::Layer(layer) => self.layers.is_none_or(|layers| layer < layers),
            };
            if !counts {
                self.skipped_tensors += 1;
                continue;
            }
            let tensor_type = tensor.info.tensor_type;
            // Tensors may overlap in a file, so their sum is not bounded by its length.
            self.parameters = self.parameters.saturating_add(tensor.info.elements());
            self.weight_bytes = self.weight_bytes.saturating_add(tensor.info.bytes);
            let type_use =
                types.entry(tensor_type.ggml_id()).or_insert(TypeUse { tensor_type, tensors: 0, bytes: 0 });
            type_use.tensors += 1;
            type_use.bytes = type_use.bytes.saturating_add(tensor.info.bytes);
        }
        self.types = types.into_values().collect();
    }
}

/// Heads of every layer, as one entry when they agree; empty when the file gives none.
fn head_counts(model: &ModelFile, key: &str, layers: Option<u32>) -> Result<Vec<u32>, MetadataError> {
    let mut counts = match model.metadata.get(key) {
        Some(MetadataValue::Array(_)) => model.metadata.get_u32_array(key)?.unwrap_or_default(),
        _ => model.metadata.get_u32(key)?.into_iter().collect(),
    };
    counts.truncate(layers.unwrap_or(LAYERS_MAX) as usize);
    if counts.windows(2).all(|pair| pair[0] == pair[1]) {
        counts.truncate(1);
    }
    Ok(counts)
}

impl fmt::Display for ModelSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = || "unknown".to_owned();
        let number = |value: Option<u64>| value.map_or_else(unknown, |value| value.to_string());
        let list = |values: &[u32]| match values {
            [] => unknown(),
            [one] => one.to_string(),
            many => format!("{many:?}"),
        };
        writeln!(f, "architecture   {}", self.architecture.clone().unwrap_or_else(unknown))?;
        writeln!(f, "name           {}", self.name.clone().unwrap_or_else(unknown))?;
        writeln!(f, "files          {}", self.shards)?;
        writeln!(f, "parameters     {}", self.parameters)?;
        writeln!(f, "weight bytes   {}", self.weight_bytes)?;
        writeln!(f, "context        {}", number(self.context_len.map(u64::from)))?;
        writeln!(f, "layers         {}", number(self.layers.map(u64::from)))?;
        writeln!(f, "width          {}", number(self.width.map(u64::from)))?;
        writeln!(f, "heads          {}", list(&self.heads))?;
        writeln!(f, "kv heads       {}", list(&self.kv_heads))?;
        writeln!(f, "vocabulary     {}", number(self.vocabulary_len))?;
        for TypeUse { tensor_type, tensors, bytes } in &self.types {
            writeln!(f, "type {:<9} {tensors} tensors, {bytes} bytes", tensor_type.name())?;
        }
        match self.skipped_tensors {
            0 => Ok(()),
            skipped => writeln!(f, "skipped        {skipped} tensors of other models or prediction blocks"),
        }
    }
}
