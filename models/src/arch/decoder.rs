//! The decoder that all supported architectures share: pre-norm attention and a gated feed-forward. What
//! differs is data, given by each architecture's file.

use fanlight_messages::program::{AttentionShape, GateFunction, VectorPart};

use super::error::ArchError;
use super::hyper::Hyperparameters;
use super::tensors::TensorSource;
use crate::spec::{AttentionSpec, FeedForwardSpec, LayerSpec, ModelSpec, RotarySpec};

/// What an architecture's layers have.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecoderTraits {
    /// Biases of the q, k and v projections are read where the file has them.
    pub projection_bias: bool,
    /// Query and key heads are normalised.
    pub head_norms: bool,
    /// Attention and feed-forward outputs are normalised before they are added.
    pub post_norms: bool,
    /// Gate function.
    pub gate: GateFunction,
}

/// How layers attend.
#[derive(Debug, Clone)]
pub(super) struct AttentionRules {
    /// Rotary tables.
    pub ropes: Vec<RotarySpec>,
    /// Multiplies the scores.
    pub query_scale: f32,
    /// Rotary table and window of each layer.
    pub layers: Vec<LayerRule>,
}

/// How one layer attends.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerRule {
    /// Index into [`AttentionRules::ropes`].
    pub rope: u32,
    /// Positions seen; `None` sees all.
    pub window: Option<u32>,
}

impl AttentionRules {
    /// Every layer sees all positions through one table; refuses a window that the file asks for.
    pub(super) fn uniform(hyper: &Hyperparameters<'_>, rope: RotarySpec) -> Result<Self, ArchError> {
        let name = "attention.sliding_window";
        if let Some(window) = hyper.u32(name)?.filter(|window| (1..hyper.context_len_max).contains(window)) {
            return Err(hyper.unsupported(name, window));
        }
        let layers = vec![LayerRule { rope: 0, window: None }; hyper.attention.len()];
        Ok(Self { ropes: vec![rope], query_scale: query_scale(hyper, hyper.head_len)?, layers })
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
    embed_scale: f32,
) -> Result<ModelSpec, ArchError> {
    let width = hyper.width;
    let vocabulary_len = hyper.check_vocabulary(tensors.rows_of("token_embd.weight")?)?;
    let embedding = tensors.weight("token_embd.weight".to_owned(), width, vocabulary_len)?;
    let soft_cap = hyper.positive("attn_logit_softcapping")?;
    let mut layers = Vec::with_capacity(hyper.attention.len());
    let per_layer = hyper.attention.iter().zip(&hyper.feed_forward).zip(&rules.layers);
    for (index, ((shape, feed_forward_len), rule)) in per_layer.enumerate() {
        let mut layer = LayerTensors { tensors: &mut tensors, index, width, traits };
        let attention = layer.attention(*shape, *rule, rules.query_scale, soft_cap)?;
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
        embed_scale,
        ropes: rules.ropes,
        layers,
        output_norm,
        head,
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

    fn attention(
        &mut self,
        shape: AttentionShape,
        rule: LayerRule,
        query_scale: f32,
        soft_cap: Option<f32>,
    ) -> Result<AttentionSpec, ArchError> {
        let (width, head_len) = (self.width, shape.head_len);
        let (query_len, kv_len) = (shape.query_len(), shape.kv_heads * head_len);
        Ok(AttentionSpec {
            shape,
            norm: self.tensors.vector(self.name("attn_norm.weight"), width)?,
            qkv: [
                self.tensors.weight(self.name("attn_q.weight"), width, query_len)?,
                self.tensors.weight(self.name("attn_k.weight"), width, kv_len)?,
                self.tensors.weight(self.name("attn_v.weight"), width, kv_len)?,
            ],
            bias: self.bias(query_len, kv_len)?,
            query_norm: self.vector_if(self.traits.head_norms, "attn_q_norm.weight", head_len)?,
            key_norm: self.vector_if(self.traits.head_norms, "attn_k_norm.weight", head_len)?,
            rope: rule.rope,
            query_scale,
            window: rule.window,
            soft_cap,
            output: self.tensors.weight(self.name("attn_output.weight"), query_len, width)?,
            post_norm: self.vector_if(self.traits.post_norms, "post_attention_norm.weight", width)?,
        })
    }

    /// Biases of q, k and v: zeros stand in for a missing one, nothing for three missing ones.
    fn bias(&mut self, query_len: u32, kv_len: u32) -> Result<Option<[VectorPart; 3]>, ArchError> {
        if !self.traits.projection_bias {
            return Ok(None);
        }
        let query = self.tensors.optional_vector(self.name("attn_q.bias"), query_len)?;
        let key = self.tensors.optional_vector(self.name("attn_k.bias"), kv_len)?;
        let value = self.tensors.optional_vector(self.name("attn_v.bias"), kv_len)?;
        if query.is_none() && key.is_none() && value.is_none() {
            return Ok(None);
        }
        let zeros = |len| VectorPart { tensor: None, len };
        Ok(Some([
            query.unwrap_or(zeros(query_len)),
            key.unwrap_or(zeros(kv_len)),
            value.unwrap_or(zeros(kv_len)),
        ]))
    }

    fn feed_forward(&mut self, len: u32) -> Result<FeedForwardSpec, ArchError> {
        let width = self.width;
        Ok(FeedForwardSpec {
            norm: self.tensors.vector(self.name("ffn_norm.weight"), width)?,
            gate_up: [
                self.tensors.weight(self.name("ffn_gate.weight"), width, len)?,
                self.tensors.weight(self.name("ffn_up.weight"), width, len)?,
            ],
            function: self.traits.gate,
            down: self.tensors.weight(self.name("ffn_down.weight"), len, width)?,
            post_norm: self.vector_if(self.traits.post_norms, "post_ffw_norm.weight", width)?,
        })
    }
}
