//! Hyper-parameters that every decoder has, range-checked before anything is sized by them.

use fanlight_messages::program::AttentionShape;

use super::error::ArchError;
use super::limits::*;
use super::tensors::trunk_layers;
use crate::gguf::ModelFile;
use crate::gguf::metadata::{Metadata, required};

/// Where the values of an architecture are looked up.
pub(super) struct Hyperparameters<'a> {
    /// `general.architecture`, the prefix of the keys.
    pub architecture: &'static str,
    metadata: &'a Metadata,
    /// All blocks of the file, prediction blocks included.
    pub block_count: u32,
    /// Layers that are run.
    pub trunk_layers: u32,
    pub width: u32,
    pub context_len_max: u32,
    pub epsilon: f32,
    /// Heads of each trunk layer.
    pub attention: Vec<AttentionShape>,
    /// Inner feed-forward length of each trunk layer.
    pub feed_forward: Vec<u32>,
    /// Elements of a head.
    pub head_len: u32,
}

/// Float settings that scale something and are refused unless the architecture reads them; 0 and `neutral`
/// mean off.
const REFUSED_FLOATS: [(&str, f32); 6] = [
    ("embedding_scale", 1.0),
    ("residual_scale", 1.0),
    ("logit_scale", 1.0),
    ("attention.clamp_kqv", 0.0),
    ("attention.max_alibi_bias", 0.0),
    ("attention.temperature_scale", 0.0),
];

impl<'a> Hyperparameters<'a> {
    /// Reads and checks the common values. `scales` are the float settings that the architecture reads
    /// itself.
    pub(super) fn read(
        model: &'a ModelFile,
        architecture: &'static str,
        scales: &[&str],
    ) -> Result<Self, ArchError> {
        let metadata = &model.metadata;
        let mut hyper = Self {
            architecture,
            metadata,
            block_count: 0,
            trunk_layers: 0,
            width: 0,
            context_len_max: 0,
            epsilon: 0.0,
            attention: Vec::new(),
            feed_forward: Vec::new(),
            head_len: 0,
        };
        hyper.refuse_unsupported(scales)?;
        hyper.block_count = hyper.required_in("block_count", 1, LAYERS_MAX)?;
        let predicted = hyper.u32("nextn_predict_layers")?.unwrap_or(0);
        hyper.trunk_layers = trunk_layers(model, hyper.block_count, predicted);
        if hyper.trunk_layers == 0 {
            let wanted = format!("fewer than block_count = {}", hyper.block_count);
            return Err(hyper.refuse("nextn_predict_layers", predicted, wanted));
        }
        hyper.width = hyper.required_in("embedding_length", 1, WIDTH_MAX)?;
        hyper.context_len_max = hyper.required_in("context_length", 1, CONTEXT_MAX)?;
        hyper.epsilon = hyper.read_epsilon()?;
        let heads = hyper.per_layer("attention.head_count", None, HEADS_MAX)?;
        let kv_heads = hyper.per_layer("attention.head_count_kv", Some(&heads), HEADS_MAX)?;
        hyper.feed_forward = hyper.per_layer("feed_forward_length", None, FEED_FORWARD_MAX)?;
        hyper.head_len = hyper.read_head_len(&heads)?;
        hyper.attention = hyper.attention_shapes(&heads, &kv_heads)?;
        Ok(hyper)
    }

    /// The full name of a key.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    pub(super) fn u32(&self, name: &str) -> Result<Option<u32>, ArchError> {
        Ok(self.metadata.get_u32(&self.key(name))?)
    }

    /// A finite float.
    pub(super) fn f32(&self, name: &str) -> Result<Option<f32>, ArchError> {
        let value = self.metadata.get_f32(&self.key(name))?;
        match value {
            Some(value) if !value.is_finite() => Err(self.refuse(name, value, "a finite number")),
            value => Ok(value),
        }
    }

    /// A positive float; `None` also for the 0 that writers use for "not set".
    pub(super) fn positive(&self, name: &str) -> Result<Option<f32>, ArchError> {
        match self.f32(name)? {
            Some(value) if value < 0.0 => Err(self.refuse(name, value, "a positive number")),
            value => Ok(value.filter(|value| *value > 0.0)),
        }
    }

    pub(super) fn bool(&self, name: &str) -> Result<Option<bool>, ArchError> {
        Ok(self.metadata.get_bool(&self.key(name))?)
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, ArchError> {
        Ok(self.metadata.get_text(&self.key(name))?.map(|text| text.into_owned()))
    }

    pub(super) fn metadata(&self) -> &'a Metadata {
        self.metadata
    }

    /// The error for a value of `name`.
    pub(super) fn refuse(
        &self,
        name: &str,
        found: impl std::fmt::Display,
        wanted: impl Into<String>,
    ) -> ArchError {
        ArchError::HyperParameter { key: self.key(name), found: found.to_string(), wanted: wanted.into() }
    }

    /// The error for a setting of `name` that is not implemented.
    pub(super) fn unsupported(&self, name: &str, value: impl std::fmt::Display) -> ArchError {
        ArchError::UnsupportedSetting { key: self.key(name), value: value.to_string() }
    }

    fn required_in(&self, name: &str, min: u32, max: u32) -> Result<u32, ArchError> {
        let value = required(&self.key(name), self.u32(name)?)?;
        if (min..=max).contains(&value) {
            return Ok(value);
        }
        Err(self.refuse(name, value, format!("{min}..={max}")))
    }

    /// A value for each trunk layer, given once or as a list over all blocks.
    fn per_layer(&self, name: &str, default: Option<&[u32]>, max: u32) -> Result<Vec<u32>, ArchError> {
        let blocks = self.block_count as usize;
        let given = self.metadata.get_u32_or_array(&self.key(name), blocks)?;
        let mut values = match (given, default) {
            (None, Some(default)) => default.to_vec(),
            (given, _) => {
                let values = required(&self.key(name), given)?;
                if values.len() != blocks {
                    return Err(ArchError::ListLength {
                        key: self.key(name),
                        found: values.len(),
                        wanted: blocks,
                    });
                }
                values
            }
        };
        values.truncate(self.trunk_layers as usize);
        match values.iter().position(|value| !(1..=max).contains(value)) {
            None => Ok(values),
            Some(layer) => Err(self.refuse(name, values[layer], format!("1..={max} in layer {layer}"))),
        }
    }

    fn read_epsilon(&self) -> Result<f32, ArchError> {
        let name = "attention.layer_norm_rms_epsilon";
        let epsilon = required(&self.key(name), self.f32(name)?)?;
        if epsilon > 0.0 && epsilon < 1.0 {
            return Ok(epsilon);
        }
        Err(self.refuse(name, epsilon, "a number between 0 and 1"))
    }

    /// `attention.key_length` comes first: many models have heads that are not `width / heads` long.
    fn read_head_len(&self, heads: &[u32]) -> Result<u32, ArchError> {
        let name = "attention.key_length";
        let head_len = match self.u32(name)? {
            Some(head_len) => head_len,
            None => {
                let heads = heads.first().copied().unwrap_or(1);
                if !self.width.is_multiple_of(heads) {
                    let wanted = format!("a divisor of embedding_length = {}", self.width);
                    return Err(self.refuse("attention.head_count", heads, wanted));
                }
                self.width / heads
            }
        };
        if head_len == 0 || head_len > HEAD_LEN_MAX || !head_len.is_multiple_of(HEAD_LEN_STEP) {
            let wanted = format!("a multiple of {HEAD_LEN_STEP} up to {HEAD_LEN_MAX}");
            return Err(self.refuse(name, head_len, wanted));
        }
        match self.u32("attention.value_length")? {
            Some(value_len) if value_len != head_len => {
                Err(self.refuse("attention.value_length", value_len, format!("key_length = {head_len}")))
            }
            _ => Ok(head_len),
        }
    }

    fn attention_shapes(&self, heads: &[u32], kv_heads: &[u32]) -> Result<Vec<AttentionShape>, ArchError> {
        let head_len = self.head_len;
        let shapes = heads.iter().zip(kv_heads).map(|(&query_heads, &kv_heads)| {
            if query_heads.is_multiple_of(kv_heads) {
                return Ok(AttentionShape { query_heads, kv_heads, head_len });
            }
            let wanted = format!("a divisor of head_count = {query_heads}");
            Err(self.refuse("attention.head_count_kv", kv_heads, wanted))
        });
        shapes.collect()
    }

    fn refuse_unsupported(&self, scales: &[&str]) -> Result<(), ArchError> {
        if let Some(experts) = self.u32("expert_count")?.filter(|experts| *experts > 0) {
            return Err(self.unsupported("expert_count", experts));
        }
        for (name, neutral) in REFUSED_FLOATS.into_iter().filter(|(name, _)| !scales.contains(name)) {
            if let Some(value) = self.f32(name)?.filter(|value| *value != 0.0 && *value != neutral) {
                return Err(self.unsupported(name, value));
            }
        }
        for (name, refused) in [("attention.causal", false), ("use_parallel_residual", true)] {
            if self.bool(name)? == Some(refused) {
                return Err(self.unsupported(name, refused));
            }
        }
        Ok(())
    }

    /// Checks the vocabulary that the embedding has against what the metadata says.
    pub(super) fn check_vocabulary(&self, rows: u64) -> Result<u32, ArchError> {
        let vocabulary_len = u32::try_from(rows).ok().filter(|rows| *rows <= VOCABULARY_MAX);
        let Some(vocabulary_len) = vocabulary_len else {
            return Err(self.refuse("vocab_size", rows, format!("1..={VOCABULARY_MAX}")));
        };
        let wanted = || format!("the {vocabulary_len} rows of token_embd.weight");
        if let Some(size) = self.u32("vocab_size")?.filter(|size| *size != vocabulary_len) {
            return Err(self.refuse("vocab_size", size, wanted()));
        }
        let key = "tokenizer.ggml.tokens";
        match self.metadata.get_bytes_array(key)?.map(<[_]>::len) {
            Some(len) if len as u64 != rows => Err(ArchError::HyperParameter {
                key: key.to_owned(),
                found: format!("a list of {len}"),
                wanted: wanted(),
            }),
            _ => Ok(vocabulary_len),
        }
    }
}
