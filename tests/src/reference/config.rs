//! What the metadata of a file says about its architecture.

use super::ReferenceError;
use super::rope::{Rope, Scaling};
use crate::blocks::decode_row;
use crate::gguf::{GgufReader, Value};

/// gemma3: every sixth layer sees everything, unless the file says otherwise.
const GEMMA_PATTERN: u64 = 6;
/// gemma3: rope base of the windowed layers, unless the file says otherwise.
const GEMMA_LOCAL_BASE: f64 = 10_000.0;
/// gemma3 27B, the one size whose queries are scaled by width / heads, is told by its layer count.
const GEMMA_27B_LAYERS: usize = 62;

/// One layer.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerConfig {
    /// Positions seen, the current one included.
    pub window: Option<usize>,
    /// Index into [`Config::ropes`].
    pub rope: usize,
}

/// Shape of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Width of the residual stream.
    pub width: usize,
    /// Query heads.
    pub query_heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements per head.
    pub head_len: usize,
    /// Of every norm.
    pub epsilon: f64,
    /// Multiplies embeddings.
    pub embedding_scale: f64,
    /// Multiplies query·key.
    pub query_scale: f64,
    /// GELU (tanh) instead of SiLU.
    pub is_gelu: bool,
    /// `cap · tanh(logit / cap)` on the logits.
    pub logits_soft_cap: Option<f64>,
    /// Position rules.
    pub ropes: Vec<Rope>,
    /// Layers.
    pub layers: Vec<LayerConfig>,
}

/// Typed access to the keys under an architecture's prefix.
struct Keys<'a> {
    file: &'a GgufReader,
    architecture: String,
}

impl Keys<'_> {
    fn value(&self, key: &str) -> Option<&Value> {
        self.file.get(&format!("{}.{key}", self.architecture))
    }
    fn count(&self, key: &str) -> Result<usize, ReferenceError> {
        self.count_or(key, None)
    }
    fn count_or(&self, key: &str, default: Option<usize>) -> Result<usize, ReferenceError> {
        let found = self.value(key).and_then(Value::as_u64).map(|x| x as usize);
        found.or(default).ok_or_else(|| ReferenceError::Key(format!("{}.{key}", self.architecture)))
    }
    fn float(&self, key: &str, default: f64) -> f64 {
        self.value(key).and_then(Value::as_f64).unwrap_or(default)
    }
    fn scaling(&self) -> Result<Scaling, ReferenceError> {
        let factor = self.float("rope.scaling.factor", self.float("rope.scale_linear", 1.0));
        let kind = self.value("rope.scaling.type").and_then(Value::as_text);
        match kind.unwrap_or(if factor == 1.0 { "none" } else { "linear" }) {
            "none" => Ok(Scaling::None),
            "linear" => Ok(Scaling::Linear { factor }),
            "yarn" => Ok(Scaling::Yarn {
                factor,
                original_context: self
                    .count_or("rope.scaling.original_context_length", self.count("context_length").ok())?
                    as f64,
                attention_factor: self.float("rope.scaling.attn_factor", 1.0),
                beta_fast: self.float("rope.scaling.yarn_beta_fast", 32.0),
                beta_slow: self.float("rope.scaling.yarn_beta_slow", 1.0),
            }),
            other => Err(ReferenceError::RopeScaling(other.to_owned())),
        }
    }
}

impl Config {
    /// Reads the metadata (and the `rope_freqs` tensor, when there is one).
    ///
    /// # Errors
    /// [`ReferenceError`] when the architecture is unknown or a key is missing.
    pub fn from_file(file: &mut GgufReader) -> Result<Self, ReferenceError> {
        let divisors = read_vector(file, "rope_freqs.weight")?;
        let architecture = file.get("general.architecture").and_then(Value::as_text).unwrap_or("").to_owned();
        if !["llama", "qwen2", "qwen3", "gemma3"].contains(&architecture.as_str()) {
            return Err(ReferenceError::Architecture(architecture));
        }
        let is_gemma = architecture == "gemma3";
        let is_adjacent = architecture == "llama";
        let keys = Keys { file, architecture };
        let width = keys.count("embedding_length")?;
        let query_heads = keys.count("attention.head_count")?;
        let head_len = keys.count_or("attention.key_length", Some(width / query_heads))?;
        let rotated_len = keys.count_or("rope.dimension_count", Some(head_len))?;
        let base = keys.float("rope.freq_base", 10_000.0);
        let local_base = keys.float("rope.freq_base_swa", GEMMA_LOCAL_BASE);
        let layer_count = keys.count("block_count")?;
        let mut ropes = vec![Rope::new(base, rotated_len, keys.scaling()?, divisors.as_deref(), is_adjacent)];
        let mut layers = vec![LayerConfig { window: None, rope: 0 }; layer_count];
        if is_gemma {
            ropes.push(Rope::new(local_base, rotated_len, Scaling::None, None, is_adjacent));
            let window = keys.count("attention.sliding_window")?;
            let period = keys.count_or("attention.sliding_window_pattern", Some(GEMMA_PATTERN as usize))?;
            for (index, layer) in layers.iter_mut().enumerate() {
                if index % period != period - 1 {
                    *layer = LayerConfig { window: Some(window), rope: 1 };
                }
            }
        }
        let scaled_len =
            if is_gemma && layer_count == GEMMA_27B_LAYERS { width / query_heads } else { head_len };
        Ok(Self {
            width,
            query_heads,
            kv_heads: keys.count_or("attention.head_count_kv", Some(query_heads))?,
            head_len,
            epsilon: keys.float("attention.layer_norm_rms_epsilon", 1e-5),
            embedding_scale: if is_gemma { (width as f64).sqrt() } else { 1.0 },
            query_scale: 1.0 / (scaled_len as f64).sqrt(),
            is_gelu: is_gemma,
            logits_soft_cap: keys.value("final_logit_softcapping").and_then(Value::as_f64),
            ropes,
            layers,
        })
    }

    /// True when the forward pass reads a tensor of this name.
    pub fn uses(&self, name: &str) -> bool {
        const WHOLE: [&str; 4] =
            ["token_embd.weight", "output.weight", "output_norm.weight", "rope_freqs.weight"];
        const PER_LAYER: [&str; 16] = [
            "attn_norm.weight",
            "attn_q.weight",
            "attn_k.weight",
            "attn_v.weight",
            "attn_q.bias",
            "attn_k.bias",
            "attn_v.bias",
            "attn_q_norm.weight",
            "attn_k_norm.weight",
            "attn_output.weight",
            "post_attention_norm.weight",
            "ffn_norm.weight",
            "ffn_gate.weight",
            "ffn_up.weight",
            "ffn_down.weight",
            "post_ffw_norm.weight",
        ];
        let layer_tensor = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
        WHOLE.contains(&name)
            || layer_tensor.is_some_and(|(layer, tensor)| {
                layer.parse::<usize>().is_ok_and(|l| l < self.layers.len()) && PER_LAYER.contains(&tensor)
            })
    }
}

/// All elements of a tensor, when the file has it.
pub fn read_vector(file: &mut GgufReader, name: &str) -> Result<Option<Vec<f32>>, ReferenceError> {
    let Some(entry) = file.tensor(name).cloned() else { return Ok(None) };
    let bytes = file.read_rows(&entry, 0, entry.rows)?;
    Ok(Some(decode_row(entry.tensor_type, &bytes)?))
}
