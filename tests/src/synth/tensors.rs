//! The tensors of a synthetic file: names, extents, types, and how their random weights are spread.

use super::shape::{Architecture, RopeRule, Shape};
use crate::gguf::{TensorPlan, WriteError};
use fanlight_messages::TensorType;

/// Deviation of the logits of a random model: a clear favourite most of the time, and real ties never.
const LOGITS_DEVIATION: f64 = 3.5;
/// Deviation of q and k over that of their input, so that attention is neither flat nor a single peak.
const QUERY_KEY_GAIN: f64 = 1.5;

/// Which types the matrices of a file have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightTypes {
    /// Every matrix in one type, the embedding table included; it must divide every row.
    All(TensorType),
    /// As llama.cpp writes files of one base type: head in Q6_K, another type where rows do not divide.
    Published(TensorType),
    /// As its `_M` mixes: some value and down projections in Q6_K as well.
    PublishedMix(TensorType),
}

/// What a tensor does, which decides its type and spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Embedding,
    Head,
    QueryKey,
    Value,
    Down,
    Other,
    Norm,
    Bias,
    Divisors,
    LongDivisors,
}

/// How the elements of a tensor are drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Spread {
    /// Normal with this mean and deviation.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        deviation: f64,
    },
    /// These values.
    Given(Vec<f32>),
}

/// A tensor to be drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot {
    /// Name, extents, type.
    pub plan: TensorPlan,
    /// Its type.
    pub tensor_type: TensorType,
    /// Elements per row.
    pub columns: u64,
    /// Its elements.
    pub spread: Spread,
}

impl Slot {
    /// Bytes of a row in the file.
    pub fn row_bytes(&self) -> u64 {
        self.tensor_type.row_bytes(self.columns).unwrap_or(self.plan.size_bytes)
    }
}

impl WeightTypes {
    /// The type of a matrix.
    fn of(self, role: Role, columns: u64, layer: u32, layers: u32, is_tied: bool) -> TensorType {
        let is_head = role == Role::Head || (role == Role::Embedding && is_tied);
        let wanted = match self {
            Self::All(tensor_type) => return tensor_type,
            Self::Published(base) | Self::PublishedMix(base) if base.is_float() => base,
            Self::Published(base) | Self::PublishedMix(base) if is_head => {
                if base == TensorType::Q8_0 {
                    base
                } else {
                    TensorType::Q6K
                }
            }
            Self::Published(base) => base,
            Self::PublishedMix(base) => {
                let eighth = layers / 8;
                let gets_more = layer < eighth || layer >= 7 * eighth || (layer - eighth) % 3 == 2;
                if gets_more && matches!(role, Role::Value | Role::Down) { TensorType::Q6K } else { base }
            }
        };
        if wanted.row_bytes(columns).is_some() {
            return wanted;
        }
        let fallback = match wanted {
            TensorType::Q4K => TensorType::Q5_0,
            TensorType::Q5K => TensorType::Q5_1,
            TensorType::Q6K => TensorType::Q8_0,
            _ => TensorType::Iq4Nl,
        };
        if fallback.row_bytes(columns).is_some() { fallback } else { TensorType::F16 }
    }
}

/// Collects the slots of one file.
struct Slots<'a> {
    shape: &'a Shape,
    types: WeightTypes,
    slots: Vec<Slot>,
}

impl Slots<'_> {
    fn push(
        &mut self,
        name: String,
        role: Role,
        layer: u32,
        rows: u64,
        columns: u64,
    ) -> Result<(), WriteError> {
        let is_matrix = !matches!(role, Role::Norm | Role::Bias | Role::Divisors | Role::LongDivisors);
        let (layers, is_tied) = (self.shape.layers, self.shape.is_tied);
        let tensor_type =
            if is_matrix { self.types.of(role, columns, layer, layers, is_tied) } else { TensorType::F32 };
        let fan_in = (columns as f64).sqrt();
        let normal = |mean, deviation| Spread::Normal { mean, deviation };
        let spread = match role {
            Role::Embedding | Role::Head => normal(0.0, LOGITS_DEVIATION / fan_in),
            Role::QueryKey => normal(0.0, QUERY_KEY_GAIN / fan_in),
            Role::Value | Role::Down | Role::Other => normal(0.0, 1.0 / fan_in),
            Role::Norm => normal(1.0, 0.2),
            Role::Bias => normal(0.0, 0.3),
            Role::Divisors => Spread::Given(self.divisors()),
            Role::LongDivisors => Spread::Given(self.divisors().iter().map(|short| 3.0 * short).collect()),
        };
        let plan = TensorPlan::new(name, rows, columns, tensor_type)?;
        self.slots.push(Slot { plan, tensor_type, columns, spread });
        Ok(())
    }

    /// Llama 3's frequency divisors: waves longer than the training length are slowed by the factor, waves
    /// shorter than a quarter of it kept, those between by a smooth mean.
    fn divisors(&self) -> Vec<f32> {
        const TRAINING_LEN: f64 = 8192.0;
        if let RopeRule::Long { .. } = self.shape.rope_rule {
            let pairs = self.shape.rotated_len.unwrap_or(self.shape.head_len) / 2;
            return (0..pairs).map(|i| 1.0 + 0.25 * i as f32).collect();
        }
        let RopeRule::Llama3 { factor } = self.shape.rope_rule else { return Vec::new() };
        let head_len = f64::from(self.shape.head_len);
        let divisor = |i: u32| {
            let frequency = f64::from(self.shape.rope_base).powf(-2.0 * f64::from(i) / head_len);
            let turns = TRAINING_LEN * frequency / (2.0 * std::f64::consts::PI);
            let kept = ((turns - 1.0) / 3.0).clamp(0.0, 1.0);
            (1.0 / (kept + (1.0 - kept) / factor)) as f32
        };
        (0..self.shape.head_len / 2).map(divisor).collect()
    }

    fn layer(&mut self, layer: u32) -> Result<(), WriteError> {
        let s = self.shape;
        let [width, ffn, head] = [s.width, s.ffn_len, s.head_len].map(u64::from);
        let [query, kv] = [s.query_heads, s.kv_heads].map(|heads| u64::from(heads) * head);
        let architecture = s.architecture;
        let is_fused = architecture == Architecture::Phi3;
        let mut tensors = Vec::new();
        if architecture.has_pre_norms() {
            tensors.push(("attn_norm.weight", Role::Norm, 1, width));
        }
        if is_fused {
            tensors.push(("attn_qkv.weight", Role::QueryKey, query + 2 * kv, width));
        } else {
            tensors.extend([
                ("attn_q.weight", Role::QueryKey, query, width),
                ("attn_k.weight", Role::QueryKey, kv, width),
                ("attn_v.weight", Role::Value, kv, width),
            ]);
        }
        tensors.push(("attn_output.weight", Role::Other, width, query));
        if architecture.has_pre_norms() {
            tensors.push(("ffn_norm.weight", Role::Norm, 1, width));
        }
        if is_fused {
            tensors.push(("ffn_up.weight", Role::Other, 2 * ffn, width));
        } else {
            tensors.push(("ffn_gate.weight", Role::Other, ffn, width));
            tensors.push(("ffn_up.weight", Role::Other, ffn, width));
        }
        tensors.push(("ffn_down.weight", Role::Down, width, ffn));
        if architecture.has_projection_biases() {
            tensors.push(("attn_q.bias", Role::Bias, 1, query));
            tensors.push(("attn_k.bias", Role::Bias, 1, kv));
            tensors.push(("attn_v.bias", Role::Bias, 1, kv));
        }
        if architecture == Architecture::Granite {
            tensors.push(("attn_output.bias", Role::Bias, 1, width));
            tensors.push(("ffn_gate.bias", Role::Bias, 1, ffn));
            tensors.push(("ffn_up.bias", Role::Bias, 1, ffn));
            tensors.push(("ffn_down.bias", Role::Bias, 1, width));
        }
        if architecture.has_head_norms() {
            let spans = architecture == Architecture::Olmo2;
            let [of_query, of_key] = if spans { [query, kv] } else { [head; 2] };
            tensors.push(("attn_q_norm.weight", Role::Norm, 1, of_query));
            tensors.push(("attn_k_norm.weight", Role::Norm, 1, of_key));
        }
        if architecture.has_post_norms() {
            tensors.push(("post_attention_norm.weight", Role::Norm, 1, width));
            tensors.push(("post_ffw_norm.weight", Role::Norm, 1, width));
        }
        for (name, role, rows, columns) in tensors {
            self.push(format!("blk.{layer}.{name}"), role, layer, rows, columns)?;
        }
        Ok(())
    }
}

/// Every tensor of a model of this shape, in file order.
///
/// # Errors
/// [`WriteError::PartialBlock`] when [`WeightTypes::All`] names a type that does not divide a row.
pub fn tensors(shape: &Shape, vocabulary_len: usize, types: WeightTypes) -> Result<Vec<Slot>, WriteError> {
    let (rows, width) = (vocabulary_len as u64, u64::from(shape.width));
    let mut slots = Slots { shape, types, slots: Vec::new() };
    if !shape.is_tied {
        slots.push("output.weight".to_owned(), Role::Head, 0, rows, width)?;
    }
    slots.push("token_embd.weight".to_owned(), Role::Embedding, 0, rows, width)?;
    slots.push("output_norm.weight".to_owned(), Role::Norm, 0, 1, width)?;
    if matches!(shape.rope_rule, RopeRule::Llama3 { .. }) {
        slots.push("rope_freqs.weight".to_owned(), Role::Divisors, 0, 1, u64::from(shape.head_len / 2))?;
    }
    if matches!(shape.rope_rule, RopeRule::Long { .. }) {
        let pairs = u64::from(shape.rotated_len.unwrap_or(shape.head_len) / 2);
        slots.push("rope_factors_short.weight".to_owned(), Role::Divisors, 0, 1, pairs)?;
        slots.push("rope_factors_long.weight".to_owned(), Role::LongDivisors, 0, 1, pairs)?;
    }
    (0..shape.layers).try_for_each(|layer| slots.layer(layer))?;
    Ok(slots.slots)
}
