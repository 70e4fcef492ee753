//! An architecture as data: what a model is made of, with names of tensors instead of weights.
//!
//! A [`ModelSpec`] says what is computed; `arch::program` decides with which ops and matrices.

use std::fmt;

use fanlight_messages::TensorType;
use fanlight_messages::program::{
    AttentionShape, GateFunction, NormSpan, QueryFactor, RopePairing, VectorPart,
};

/// A decoder as data.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    /// `general.architecture`.
    pub architecture: &'static str,
    /// Elements of the residual stream.
    pub width: u32,
    /// Token ids; rows of the embedding.
    pub vocabulary_len: u32,
    /// Longest context the file promises, in tokens.
    pub context_len_max: u32,
    /// Added to the mean square by every norm.
    pub epsilon: f32,
    /// One row per token id.
    pub embedding: Weight,
    /// Multiplies embedding rows.
    pub embed_scale: f32,
    /// Rotary tables that layers refer to by index.
    pub ropes: Vec<RotarySpec>,
    /// Layers in order.
    pub layers: Vec<LayerSpec>,
    /// Multiplies what each block adds to the residual stream.
    pub residual_scale: f32,
    /// Weights of the last norm.
    pub output_norm: VectorPart,
    /// The language-model head; `None` uses the embedding.
    pub head: Option<Weight>,
    /// Multiplies the logits.
    pub logits_scale: f32,
    /// Then `cap · tanh(logit / cap)`.
    pub logits_soft_cap: Option<f32>,
}

/// A weight matrix in the file: a tensor, or neighbouring rows of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weight {
    /// Name in the file.
    pub tensor: String,
    /// Format.
    pub tensor_type: TensorType,
    /// First row of the tensor.
    pub first_row: u32,
    /// Output elements.
    pub rows: u32,
    /// Input elements, a multiple of 32.
    pub columns: u32,
}

/// One layer: attention, then feed-forward, each with a norm before it, after it, or both.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerSpec {
    /// Self-attention.
    pub attention: AttentionSpec,
    /// Gated feed-forward.
    pub feed_forward: FeedForwardSpec,
}

/// Self-attention of a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionSpec {
    /// Heads.
    pub shape: AttentionShape,
    /// Norm weights before it.
    pub norm: Option<VectorPart>,
    /// Query, key and value projections.
    pub qkv: [Weight; 3],
    /// Their biases, zeros for a missing one; `None` when there is none at all.
    pub bias: Option<[VectorPart; 3]>,
    /// Norm weights of queries.
    pub query_norm: Option<VectorPart>,
    /// Norm weights of keys.
    pub key_norm: Option<VectorPart>,
    /// What those norms span.
    pub norm_span: NormSpan,
    /// Index into [`ModelSpec::ropes`]; `None` where positions are not encoded.
    pub rope: Option<u32>,
    /// Multiplies the scores.
    pub query_scale: f32,
    /// Positions seen, the current one included; `None` sees all.
    pub window: Option<u32>,
    /// `cap · tanh(score / cap)` on the scores.
    pub soft_cap: Option<f32>,
    /// Output projection.
    pub output: Weight,
    /// Its bias.
    pub output_bias: Option<VectorPart>,
    /// Norm weights of its output.
    pub post_norm: Option<VectorPart>,
}

/// Feed-forward of a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedForwardSpec {
    /// Norm weights before it.
    pub norm: Option<VectorPart>,
    /// Gate projection; without one the function is that of the up projection.
    pub gate: Option<Weight>,
    /// Up projection.
    pub up: Weight,
    /// Biases of both in that order, zeros for a missing one; `None` when there is none at all.
    pub bias: Option<Vec<VectorPart>>,
    /// Gate function.
    pub function: GateFunction,
    /// Down projection.
    pub down: Weight,
    /// Its bias.
    pub down_bias: Option<VectorPart>,
    /// Norm weights of its output.
    pub post_norm: Option<VectorPart>,
}

/// A rotary table before its frequencies are computed.
#[derive(Debug, Clone, PartialEq)]
pub struct RotarySpec {
    /// Elements of a head that rotate, an even number.
    pub dimensions: u32,
    /// Base of the geometric series of wavelengths.
    pub base: f32,
    /// Which elements form a pair.
    pub pairing: RopePairing,
    /// How positions are stretched.
    pub scaling: RopeScaling,
    /// Multiplies cosine and sine, beside what YaRN adds.
    pub attention_factor: f32,
    /// Tensor of one divisor per pair (`dimensions / 2` elements), read before the program can be built.
    pub divisors: Option<VectorPart>,
    /// Another one for contexts beyond so many tokens.
    pub long: Option<(u32, VectorPart)>,
    /// What queries are multiplied by at a position.
    pub query_factor: Option<QueryFactor>,
}

/// Stretching of rotary positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// As trained.
    None,
    /// Every frequency divided by the factor.
    Linear {
        /// At least 1 in practice; positive.
        factor: f32,
    },
    /// Low frequencies divided, high ones kept, a ramp between (Peng et al., 2023).
    Yarn {
        /// Longest over original context.
        factor: f32,
        /// Context of the original training, in tokens.
        original_context_len: u32,
        /// Rotations within the original context above which a pair is kept.
        beta_fast: f32,
        /// Rotations within the original context below which a pair is divided.
        beta_slow: f32,
        /// Divides cosine and sine by `1 + 0.1 · this · ln factor`.
        log_multiplier: f32,
    },
}

impl ModelSpec {
    /// Tensors whose values decide the program itself and have to be read before it is built: a few hundred
    /// bytes.
    pub fn small_tensors(&self) -> Vec<&VectorPart> {
        let mut tensors: Vec<&VectorPart> = Vec::new();
        for rope in &self.ropes {
            tensors.extend(&rope.divisors);
            tensors.extend(rope.long.iter().map(|(_, divisors)| divisors));
        }
        tensors.sort_by_key(|part| &part.tensor);
        tensors.dedup();
        tensors
    }
}

/// The stable form that golden tests compare.
impl fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "architecture {}", self.architecture)?;
        writeln!(f, "width {}", self.width)?;
        writeln!(f, "vocabulary {}", self.vocabulary_len)?;
        writeln!(f, "context {}", self.context_len_max)?;
        writeln!(f, "epsilon {}", self.epsilon)?;
        writeln!(f, "embedding {} times {}", self.embedding, self.embed_scale)?;
        for (index, rope) in self.ropes.iter().enumerate() {
            writeln!(f, "rope {index}: {rope}")?;
        }
        for (index, layer) in self.layers.iter().enumerate() {
            writeln!(f, "layer {index}")?;
            write!(f, "{}{}", layer.attention, layer.feed_forward)?;
        }
        writeln!(f, "output norm {}", VectorText(&self.output_norm))?;
        match &self.head {
            Some(head) => writeln!(f, "head {head}")?,
            None => writeln!(f, "head tied to the embedding")?,
        }
        optional(f, "residual scale", &other_than_one(self.residual_scale))?;
        optional(f, "logits scale", &other_than_one(self.logits_scale))?;
        optional(f, "logits soft cap", &self.logits_soft_cap)
    }
}

/// A scale that does something.
fn other_than_one(scale: f32) -> Option<f32> {
    Some(scale).filter(|scale| *scale != 1.0)
}

/// Writes a line when there is a value.
fn optional<T: fmt::Display>(f: &mut fmt::Formatter<'_>, label: &str, value: &Option<T>) -> fmt::Result {
    match value {
        Some(value) => writeln!(f, "{label} {value}"),
        None => Ok(()),
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.tensor)?;
        if self.first_row > 0 {
            write!(f, "[{}..]", self.first_row)?;
        }
        write!(f, " {} {}x{}", self.tensor_type, self.rows, self.columns)
    }
}

struct VectorText<'a>(&'a VectorPart);

impl fmt::Display for VectorText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.0.tensor.as_deref().unwrap_or("zeros"), self.0.len)
    }
}

impl fmt::Display for AttentionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AttentionShape { query_heads, kv_heads, head_len } = self.shape;
        optional(f, "  norm", &self.norm.as_ref().map(VectorText))?;
        writeln!(f, "  heads {query_heads} query, {kv_heads} key-value, {head_len} elements")?;
        for weight in &self.qkv {
            writeln!(f, "  projection {weight}")?;
        }
        for bias in self.bias.iter().flatten() {
            writeln!(f, "  bias {}", VectorText(bias))?;
        }
        optional(f, "  query norm", &self.query_norm.as_ref().map(VectorText))?;
        optional(f, "  key norm", &self.key_norm.as_ref().map(VectorText))?;
        if self.norm_span == NormSpan::Row {
            writeln!(f, "  norms over rows")?;
        }
        match self.rope {
            Some(rope) => writeln!(f, "  rope {rope}, query scale {}", self.query_scale)?,
            None => writeln!(f, "  no rope, query scale {}", self.query_scale)?,
        }
        optional(f, "  window", &self.window)?;
        optional(f, "  soft cap", &self.soft_cap)?;
        writeln!(f, "  output {}", self.output)?;
        optional(f, "  output bias", &self.output_bias.as_ref().map(VectorText))?;
        optional(f, "  post norm", &self.post_norm.as_ref().map(VectorText))
    }
}

impl fmt::Display for FeedForwardSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        optional(f, "  norm", &self.norm.as_ref().map(VectorText))?;
        for weight in self.gate.iter().chain([&self.up]) {
            writeln!(f, "  projection {weight}")?;
        }
        for bias in self.bias.iter().flatten() {
            writeln!(f, "  bias {}", VectorText(bias))?;
        }
        writeln!(f, "  {} {:?}", if self.gate.is_some() { "gate" } else { "no gate," }, self.function)?;
        writeln!(f, "  output {}", self.down)?;
        optional(f, "  output bias", &self.down_bias.as_ref().map(VectorText))?;
        optional(f, "  post norm", &self.post_norm.as_ref().map(VectorText))
    }
}

impl fmt::Display for RotarySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} dimensions, base {}, {:?}, ", self.dimensions, self.base, self.pairing)?;
        match self.scaling {
            RopeScaling::None => write!(f, "no scaling")?,
            RopeScaling::Linear { factor } => write!(f, "linear by {factor}")?,
            RopeScaling::Yarn { factor, original_context_len, beta_fast, beta_slow, log_multiplier } => {
                write!(f, "yarn by {factor} from {original_context_len}, betas {beta_fast} and {beta_slow}")?;
                if log_multiplier != 0.0 {
                    write!(f, ", log multiplier {log_multiplier}")?;
                }
            }
        }
        write!(f, ", attention factor {}", self.attention_factor)?;
        if let Some(divisors) = &self.divisors {
            write!(f, ", divisors {}", VectorText(divisors))?;
        }
        if let Some((beyond, divisors)) = &self.long {
            write!(f, ", beyond {beyond} tokens {}", VectorText(divisors))?;
        }
        if let Some(QueryFactor { gain, period }) = self.query_factor {
            write!(f, ", queries times 1 + {gain} ln(position / {period} + 1)")?;
        }
        Ok(())
    }
}
