//! The decoder that all supported architectures share: attention and a feed-forward, each with norms before
//! it, after it, or both. What differs is data, given by each architecture's file.

use fanlight_messages::program::{AttentionShape, GateFunction, NormSpan, VectorPart};

use super::error::ArchError;
use super::hyper::Hyperparameters;
use super::rope::refuse_unknown_keys;
use super::tensors::TensorSource;
use super::windows::{window, windowed_layers};
use crate::spec::{AttentionSpec, FeedForwardSpec, LayerSpec, ModelSpec, RotarySpec, Weight};

/// What an architecture's layers have.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecoderTraits {
    /// Which matrices have biases where the file has them.
    pub biases: Biases,
    /// Queries and keys are normalised.
    pub head_norms: Option<NormSpan>,
    /// The inputs of attention and feed-forward are normalised.
    pub pre_norms: bool,
    /// Their outputs are normalised before they are added.
    pub post_norms: bool,
    /// Gate function.
    pub gate: GateFunction,
    /// How gate and up projections are kept.
    pub feed_forward: FeedForwardForm,
    /// Keys under `rope.` that the architecture reads beside the common ones.
    pub rope_keys: &'static [&'static str],
}

/// Which matrices may have biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Biases {
    /// None.
    None,
    /// Those of queries, keys and values.
    Projections,
    /// All of a layer.
    All,
}

/// How a file keeps gate and up projections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FeedForwardForm {
    /// A tensor each.
    Gated,
    /// A tensor each, or up alone: then there is no gate.
    GateOptional,
    /// Both in the tensor of the up projection, the gate first.
    Fused,
}

impl DecoderTraits {
    /// The plainest: norms before each block, no bias, SiLU.
    pub(super) const PLAIN: Self = Self {
        biases: Biases::None,
        head_norms: None,
        pre_norms: true,
        post_norms: false,
        gate: GateFunction::Silu,
        feed_forward: FeedForwardForm::Gated,
        rope_keys: &[],
    };
}

/// What multiplies the streams of a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scales {
    /// Embedding rows.
    pub embedding: f32,
    /// What each block adds.
    pub residual: f32,
    /// The logits.
    pub logits: f32,
}

impl Scales {
    /// Nothing is scaled.
    pub(super) const NONE: Self = Self { embedding: 1.0, residual: 1.0, logits: 1.0 };

    /// gemma's: embedding rows by the root of their length.
    pub(super) fn of_gemma(hyper: &Hyperparameters<'_>) -> Self {
        Self { embedding: libm::sqrt(f64::from(hyper.width)) as f32, ..Self::NONE }
    }
}

/// How layers attend.
#[derive(Debug, Clone)]
pub(super) struct AttentionRules {
    /// Rotary tables.
    pub ropes: Vec<RotarySpec>,
    /// Multiplies the scores.
    pub query_scale: f32,
    /// `cap · tanh(score / cap)` on the scores.
    pub soft_cap: Option<f32>,
    /// Rotary table and window of each layer.
    pub layers: Vec<LayerRule>,
}

/// How one layer attends.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerRule {
    /// Index into [`AttentionRules::ropes`]; `None` leaves positions out.
    pub rope: Option<u32>,
    /// Positions seen; `None` sees all.
    pub window: Option<u32>,
}

impl AttentionRules {
    /// Every layer rotates by one table and sees all positions.
    pub(super) fn uniform(hyper: &Hyperparameters<'_>, rope: RotarySpec) -> Result<Self, ArchError> {
        let layers = vec![LayerRule { rope: Some(0), window: None }; hyper.attention.len()];
        Ok(Self {
            ropes: vec![rope],
            query_scale: query_scale(hyper, hyper.head_len)?,
            soft_cap: hyper.positive("attn_logit_softcapping")?,
            layers,
        })
    }

    /// The same with the window that the file asks for, in every layer unless it says which.
    pub(super) fn windowed(hyper: &Hyperparameters<'_>, rope: RotarySpec) -> Result<Self, ArchError> {
        Self::uniform(hyper, rope)?.with_windows(hyper, window(hyper)?, 0)
    }

    /// The same with windows in all layers but each `period`th.
    pub(super) fn with_windows(
        mut self,
        hyper: &Hyperparameters<'_>,
        window: Option<u32>,
        period: u32,
    ) -> Result<Self, ArchError> {
        // A window of the whole context is none.
        let Some(window) = window.filter(|window| *window < hyper.context_len_max) else { return Ok(self) };
        for (layer, is_windowed) in self.layers.iter_mut().zip(windowed_layers(hyper, period)?) {
            layer.window = is_windowed.then_some(window);
        }
        Ok(self)
    }
}

/// `attention.scale`, or 1/√`len`.
pub(super) fn query_scale(hyper: &Hyperparameters<'_>, len: u32) -> Result<f32, ArchError> {
    let given = hyper.positive("attention.scale")?;
    Ok(given.unwrap_or((1.0 / libm::sqrt(f64::from(len))) as f32))
}

/// Puts the decoder together and checks every tensor of the text model.
pub(super) fn build(
    hyper: &Hyperparameters<'_>,
    mut tensors: TensorSource<'_>,
    traits: DecoderTraits,
    rules: AttentionRules,
    scales: Scales,
) -> Result<ModelSpec, ArchError> {
    refuse_unknown_keys(hyper, traits.rope_keys)?;
    let width = hyper.width;
    let vocabulary_len = hyper.check_vocabulary(tensors.rows_of("token_embd.weight")?)?;
    let embedding = tensors.weight("token_embd.weight".to_owned(), width, vocabulary_len)?;
    let mut layers = Vec::with_capacity(hyper.attention.len());
    let per_layer = hyper.attention.iter().zip(&hyper.feed_forward).zip(&rules.layers);
    for (index, ((shape, feed_forward_len), rule)) in per_layer.enumerate() {
        let mut layer = LayerTensors { tensors: &mut tensors, index, width, traits };
        let attention = layer.attention(*shape, *rule, rules.query_scale, rules.soft_cap)?;
        let feed_forward = layer.feed_forward(*feed_forward_len)?;
        layers.push(LayerSpec { attention, feed_forward });
    }
    let output_norm = tensors.vector("output_norm.weight".to_owned(), width)?;
    let head = tensors.optional_weight("output.weight", width, vocabulary_len)?;
    tensors.check_all_used(hyper.architecture, hyper.trunk_layers, hyper.block_count)?;
    Ok(ModelSpec {
        architecture: hyper.architecture,
        width,
        vocabulary_len,
        context_len_max: hyper.context_len_max,
        epsilon: hyper.epsilon,
        embedding,
        embed_scale: scales.embedding,
        ropes: rules.ropes,
        layers,
        residual_scale: scales.residual,
        output_norm,
        head,
        logits_scale: scales.logits,
        logits_soft_cap: hyper.positive("final_logit_softcapping")?,
    })
}

/// Reads the tensors of one layer.
struct LayerTensors<'s, 'm> {
    tensors: &'s mut TensorSource<'m>,
    index: usize,
    width: u32,
    traits: DecoderTraits,
}

impl LayerTensors<'_, '_> {
    fn name(&self, tensor: &str) -> String {
        format!("blk.{}.{tensor}", self.index)
    }

    fn vector_if(&mut self, wanted: bool, tensor: &str, len: u32) -> Result<Option<VectorPart>, ArchError> {
        if wanted { self.tensors.vector(self.name(tensor), len).map(Some) } else { Ok(None) }
    }

    fn weight(&mut self, tensor: &str, columns: u32, rows: u32) -> Result<Weight, ArchError> {
        self.tensors.weight(self.name(tensor), columns, rows)
    }

    fn attention(
        &mut self,
        shape: AttentionShape,
        rule: LayerRule,
        query_scale: f32,
        soft_cap: Option<f32>,
    ) -> Result<AttentionSpec, ArchError> {
        let (width, traits) = (self.width, self.traits);
        let (query_len, kv_len) = (shape.query_len(), shape.kv_heads * shape.head_len);
        let norm_span = traits.head_norms.unwrap_or(NormSpan::Head);
        let norm_len = |len| if norm_span == NormSpan::Row { len } else { shape.head_len };
        let has_norms = traits.head_norms.is_some();
        let projected = traits.biases != Biases::None;
        let bias = [("attn_q.bias", query_len), ("attn_k.bias", kv_len), ("attn_v.bias", kv_len)];
        Ok(AttentionSpec {
            shape,
            norm: self.vector_if(traits.pre_norms, "attn_norm.weight", width)?,
            qkv: self.projections([query_len, kv_len, kv_len])?,
            bias: if projected { self.biases(bias)? } else { None },
            query_norm: self.vector_if(has_norms, "attn_q_norm.weight", norm_len(query_len))?,
            key_norm: self.vector_if(has_norms, "attn_k_norm.weight", norm_len(kv_len))?,
            norm_span,
            rope: rule.rope,
            query_scale,
            window: rule.window,
            soft_cap,
            output: self.weight("attn_output.weight", query_len, width)?,
            output_bias: self.output_bias("attn_output.bias")?,
            post_norm: self.vector_if(traits.post_norms, "post_attention_norm.weight", width)?,
        })
    }

    /// Query, key and value projections: a tensor each, or all in one.
    fn projections(&mut self, rows: [u32; 3]) -> Result<[Weight; 3], ArchError> {
        let (fused, width) = (self.name("attn_qkv.weight"), self.width);
        if self.tensors.has(&fused) {
            return self.tensors.slices(fused, width, rows);
        }
        Ok([
            self.weight("attn_q.weight", width, rows[0])?,
            self.weight("attn_k.weight", width, rows[1])?,
            self.weight("attn_v.weight", width, rows[2])?,
        ])
    }

    /// Biases of neighbouring matrices: zeros stand in for a missing one, nothing when all are missing.
    fn biases<const N: usize>(
        &mut self,
        parts: [(&str, u32); N],
    ) -> Result<Option<[VectorPart; N]>, ArchError> {
        let mut found = parts.map(|(_, len)| VectorPart { tensor: None, len });
        for (part, (tensor, len)) in found.iter_mut().zip(parts) {
            if let Some(bias) = self.tensors.optional_vector(self.name(tensor), len)? {
                *part = bias;
            }
        }
        Ok(found.iter().any(|part| part.tensor.is_some()).then_some(found))
    }

    fn output_bias(&mut self, tensor: &str) -> Result<Option<VectorPart>, ArchError> {
        match self.traits.biases {
            Biases::All => self.tensors.optional_vector(self.name(tensor), self.width),
            Biases::None | Biases::Projections => Ok(None),
        }
    }

    fn feed_forward(&mut self, len: u32) -> Result<FeedForwardSpec, ArchError> {
        let (width, traits) = (self.width, self.traits);
        let norm = self.vector_if(traits.pre_norms, "ffn_norm.weight", width)?;
        let gate_name = self.name("ffn_gate.weight");
        let (gate, up) = match traits.feed_forward {
            FeedForwardForm::Fused => {
                let [gate, up] = self.tensors.slices(self.name("ffn_up.weight"), width, [len, len])?;
                (Some(gate), up)
            }
            FeedForwardForm::GateOptional if !self.tensors.has(&gate_name) => {
                (None, self.weight("ffn_up.weight", width, len)?)
            }
            FeedForwardForm::Gated | FeedForwardForm::GateOptional => {
                let gate = self.tensors.weight(gate_name, width, len)?;
                (Some(gate), self.weight("ffn_up.weight", width, len)?)
            }
        };
        let bias = match (traits.biases, &gate) {
            (Biases::None | Biases::Projections, _) => None,
            (Biases::All, Some(_)) => {
                self.biases([("ffn_gate.bias", len), ("ffn_up.bias", len)])?.map(|parts| parts.to_vec())
            }
            (Biases::All, None) => self.biases([("ffn_up.bias", len)])?.map(|parts| parts.to_vec()),
        };
        Ok(FeedForwardSpec {
            norm,
            gate,
            up,
            bias,
            function: traits.gate,
            down: self.weight("ffn_down.weight", len, width)?,
            down_bias: self.output_bias("ffn_down.bias")?,
            post_norm: self.vector_if(traits.post_norms, "post_ffw_norm.weight", width)?,
        })
    }
}
