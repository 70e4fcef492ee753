//! What the metadata of a file says about its architecture.

use super::ReferenceError;
use super::rope::{Rope, Scaling};
use crate::blocks::decode_row;
use crate::gguf::{GgufReader, Value};

/// gemma3: rope base of the windowed layers, unless the file says otherwise.
const GEMMA_LOCAL_BASE: f64 = 10_000.0;
/// The period of windows of the other architectures that have them: (name, period).
const PERIODS: [(&str, usize); 4] = [("gemma2", 2), ("gemma3", 6), ("olmo2", 4), ("exaone4", 4)];
/// Architectures whose elements 2i and 2i + 1 rotate together.
const ADJACENT: [&str; 5] = ["llama", "smollm3", "mistral3", "granite", "ernie4_5"];
/// Those that have no norms before the blocks.
const WITHOUT_PRE_NORMS: [&str; 2] = ["olmo2", "exaone4"];
/// All that this reference knows.
const KNOWN: [&str; 15] = [
    "llama", "qwen2", "qwen3", "gemma3", "qwen2vl", "qwen3vl", "gemma", "gemma2", "phi3", "smollm3",
    "mistral3", "granite", "ernie4_5", "olmo2", "exaone4",
];
/// gemma3 27B, the one size whose queries are scaled by width / heads, is told by its layer count.
const GEMMA_27B_LAYERS: usize = 62;
/// gemma2's, likewise.
const GEMMA2_27B_LAYERS: usize = 46;

/// One layer.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerConfig {
    /// Positions seen, the current one included.
    pub window: Option<usize>,
    /// Index into [`Config::ropes`]; `None` leaves positions out.
    pub rope: Option<usize>,
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
    /// Queries at position p are multiplied by 1 + gain · ln(⌊p / period⌋ + 1): gain and period.
    pub query_growth: Option<(f64, usize)>,
    /// `cap · tanh(score / cap)` on the scores.
    pub scores_soft_cap: Option<f64>,
    /// The inputs of the blocks are normalised.
    pub has_pre_norms: bool,
    /// Multiplies what the blocks add.
    pub residual_scale: f64,
    /// Divides the logits.
    pub logits_divisor: f64,
    /// GELU (tanh) instead of SiLU.
    pub is_gelu: bool,
    /// `cap · tanh(logit / cap)` on the logits.
    pub logits_soft_cap: Option<f64>,
    /// Position rules.
    pub ropes: Vec<Rope>,
    /// The first of them in contexts longer than so many tokens.
    pub long_rope: Option<(usize, Rope)>,
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
    /// Rules of positions, and the first of them in long contexts.
    fn ropes(
        &self,
        name: &str,
        head_len: usize,
        divisors: Option<Vec<f32>>,
        long_divisors: Option<Vec<f32>>,
        is_adjacent: bool,
    ) -> Result<(Vec<Rope>, Option<(usize, Rope)>), ReferenceError> {
        let rotated_len = self.count_or("rope.dimension_count", Some(head_len))?;
        let base = self.float("rope.freq_base", 10_000.0);
        let rope = |scaling, divisors| Rope::new(base, rotated_len, scaling, divisors, is_adjacent);
        let mut ropes = vec![rope(self.scaling()?, divisors.as_deref())];
        match name {
            "gemma3" => {
                let local_base = self.float("rope.freq_base_swa", GEMMA_LOCAL_BASE);
                ropes.push(Rope::new(local_base, rotated_len, Scaling::None, None, is_adjacent));
            }
            "olmo2" => ropes.push(rope(Scaling::None, None)),
            _ => {}
        }
        let mut long_rope = None;
        if let Some(divisors) = long_divisors {
            let mut long = rope(Scaling::None, Some(&divisors));
            ropes[0].magnitude = self.float("rope.scaling.attn_factor", 1.0);
            long.magnitude = ropes[0].magnitude;
            long_rope = Some((self.count("rope.scaling.original_context_length")?, long));
        }
        Ok((ropes, long_rope))
    }

    /// Windows and position rules of the layers.
    fn layers(&self, name: &str, count: usize) -> Result<Vec<LayerConfig>, ReferenceError> {
        let mut layers = vec![LayerConfig { window: None, rope: Some(0) }; count];
        if name == "smollm3" {
            layers.iter_mut().skip(3).step_by(4).for_each(|layer| layer.rope = None);
        }
        let usual = PERIODS.iter().find(|(known, _)| *known == name);
        let window = self.value("attention.sliding_window").and_then(Value::as_u64);
        let (Some(window), Some((_, usual))) = (window, usual) else { return Ok(layers) };
        let period = self.count_or("attention.sliding_window_pattern", Some(*usual))?;
        for (index, layer) in layers.iter_mut().enumerate() {
            if index % period != period - 1 {
                layer.window = Some(window as usize);
                layer.rope = Some(usize::from(matches!(name, "gemma3" | "olmo2")));
            } else if name == "exaone4" {
                layer.rope = None;
            }
        }
        Ok(layers)
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
                attention_factor: self.float("rope.scaling.attn_factor", 1.0) / {
                    let by = self.float("rope.scaling.yarn_log_multiplier", 0.0);
                    1.0 + 0.1 * by * factor.ln()
                },
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
        let read = |file: &mut GgufReader, name| read_vector(file, name);
        let short = read(file, "rope_factors_short.weight")?;
        let divisors = read(file, "rope_freqs.weight")?.or(short);
        let long_divisors = read(file, "rope_factors_long.weight")?;
        let architecture = file.get("general.architecture").and_then(Value::as_text).unwrap_or("").to_owned();
        if !KNOWN.contains(&architecture.as_str()) {
            return Err(ReferenceError::Architecture(architecture));
        }
        let name = architecture.as_str();
        let is_gemma = name.starts_with("gemma");
        let is_adjacent = ADJACENT.contains(&name);
        let keys = Keys { file, architecture: architecture.clone() };
        let width = keys.count("embedding_length")?;
        let query_heads = keys.count("attention.head_count")?;
        let head_len = keys.count_or("attention.key_length", Some(width / query_heads))?;
        let layer_count = keys.count("block_count")?;
        let (ropes, long_rope) = keys.ropes(name, head_len, divisors, long_divisors, is_adjacent)?;
        let layers = keys.layers(name, layer_count)?;
        let is_27b =
            matches!((name, layer_count), ("gemma3", GEMMA_27B_LAYERS) | ("gemma2", GEMMA2_27B_LAYERS));
        let scaled_len = if is_27b { width / query_heads } else { head_len };
        let growth = keys.value("attention.temperature_scale").and_then(Value::as_f64);
        let original_context =
            keys.count_or("rope.scaling.original_context_length", keys.count("context_length").ok())?;
        Ok(Self {
            width,
            query_heads,
            kv_heads: keys.count_or("attention.head_count_kv", Some(query_heads))?,
            head_len,
            epsilon: keys.float("attention.layer_norm_rms_epsilon", 1e-5),
            embedding_scale: keys
                .float("embedding_scale", if is_gemma { (width as f64).sqrt() } else { 1.0 }),
            query_scale: keys.float("attention.scale", 1.0 / (scaled_len as f64).sqrt()),
            query_growth: growth.map(|gain| (gain, original_context)),
            scores_soft_cap: keys.value("attn_logit_softcapping").and_then(Value::as_f64),
            has_pre_norms: !WITHOUT_PRE_NORMS.contains(&name),
            residual_scale: keys.float("residual_scale", 1.0),
            logits_divisor: keys.float("logit_scale", 1.0),
            is_gelu: is_gemma,
            logits_soft_cap: keys.value("final_logit_softcapping").and_then(Value::as_f64),
            ropes,
            long_rope,
            layers,
        })
    }

    /// True when the forward pass reads a tensor of this name.
    pub fn uses(&self, name: &str) -> bool {
        const WHOLE: [&str; 6] = [
            "token_embd.weight",
            "output.weight",
            "output_norm.weight",
            "rope_freqs.weight",
            "rope_factors_short.weight",
            "rope_factors_long.weight",
        ];
        const PER_LAYER: [&str; 21] = [
            "attn_qkv.weight",
            "attn_output.bias",
            "ffn_gate.bias",
            "ffn_up.bias",
            "ffn_down.bias",
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
