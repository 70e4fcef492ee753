//! The forward pass: embeddings, layers, head.

use super::config::read_vector;
use super::math::{dot, dot_f64, gelu_tanh, int8_round_trip, rms_norm, silu, softmax};
use super::{Output, Reference, ReferenceError};
use crate::blocks::decode_row;

/// Rows decoded at a time: bounds memory to a few MB whatever the matrix.
const ROWS_PER_READ: u64 = 256;

/// A row of f64 per token.
type Rows = Vec<Vec<f64>>;

impl Reference {
    /// Appends tokens to what the model has seen and computes their logits.
    ///
    /// # Errors
    /// Any [`ReferenceError`].
    pub fn forward(&mut self, tokens: &[u32]) -> Result<Output, ReferenceError> {
        let mut residual = self.embed(tokens)?;
        let mut layer_outputs = Vec::new();
        for layer in 0..self.config.layers.len() {
            let prefix = format!("blk.{layer}.");
            let input = self.normalised(&residual, &format!("{prefix}attn_norm.weight"))?;
            let attended = self.attention(layer, &input)?;
            let delta = self.multiply(&format!("{prefix}attn_output.weight"), &attended)?;
            self.add(&mut residual, delta, &format!("{prefix}post_attention_norm.weight"))?;
            let input = self.normalised(&residual, &format!("{prefix}ffn_norm.weight"))?;
            let delta = self.feed_forward(&prefix, &input)?;
            self.add(&mut residual, delta, &format!("{prefix}post_ffw_norm.weight"))?;
            layer_outputs.push(residual.clone());
        }
        let last = self.normalised(&residual, "output_norm.weight")?;
        let is_tied = self.file.tensor("output.weight").is_none();
        let head = if is_tied { "token_embd.weight" } else { "output.weight" };
        let mut logits = self.multiply(head, &last)?;
        if let Some(cap) = self.config.logits_soft_cap {
            logits.iter_mut().flatten().for_each(|x| *x = cap * (*x / cap).tanh());
        }
        Ok(Output { logits, layer_outputs })
    }

    fn embed(&mut self, tokens: &[u32]) -> Result<Rows, ReferenceError> {
        let entry = self.entry("token_embd.weight", self.config.width)?;
        let mut rows = Vec::with_capacity(tokens.len());
        for &token in tokens {
            if u64::from(token) >= entry.rows {
                return Err(ReferenceError::Token { token, vocabulary_len: entry.rows });
            }
            let row = decode_row(entry.tensor_type, &self.file.read_rows(&entry, u64::from(token), 1)?)?;
            rows.push(row.iter().map(|&x| f64::from(x) * self.config.embedding_scale).collect());
        }
        Ok(rows)
    }

    /// Attention of the new positions, which are appended to the cache of the layer.
    fn attention(&mut self, layer: usize, input: &Rows) -> Result<Rows, ReferenceError> {
        let mut queries = self.projection(layer, "q", input)?;
        let mut keys = self.projection(layer, "k", input)?;
        let mut values = self.projection(layer, "v", input)?;
        let head_len = self.config.head_len;
        let rope = &self.config.ropes[self.config.layers[layer].rope];
        let first = self.keys[layer].len();
        for (i, row) in queries.iter_mut().enumerate() {
            row.chunks_exact_mut(head_len).for_each(|head| rope.rotate(head, first + i));
        }
        for (i, row) in keys.iter_mut().enumerate() {
            row.chunks_exact_mut(head_len).for_each(|head| rope.rotate(head, first + i));
        }
        if self.roundings.f16_kv {
            let round = |x: &mut f64| *x = half::f16::from_f32(*x as f32).to_f64();
            keys.iter_mut().chain(values.iter_mut()).flatten().for_each(round);
        }
        self.keys[layer].extend(keys);
        self.values[layer].extend(values);
        Ok(queries.iter().enumerate().map(|(i, row)| self.attend(layer, first + i, row)).collect())
    }

    /// One of q, k, v: matrix, bias, per-head norm.
    fn projection(&mut self, layer: usize, which: &str, input: &Rows) -> Result<Rows, ReferenceError> {
        let mut rows = self.multiply(&format!("blk.{layer}.attn_{which}.weight"), input)?;
        if let Some(bias) = read_vector(&mut self.file, &format!("blk.{layer}.attn_{which}.bias"))? {
            rows.iter_mut().for_each(|r| r.iter_mut().zip(&bias).for_each(|(x, &b)| *x += f64::from(b)));
        }
        if let Some(weight) = read_vector(&mut self.file, &format!("blk.{layer}.attn_{which}_norm.weight"))? {
            rows.iter_mut().for_each(|r| rms_norm(r, &weight, self.config.epsilon));
        }
        Ok(rows)
    }

    /// Softmax attention of one position over the cache.
    fn attend(&self, layer: usize, position: usize, query: &[f64]) -> Vec<f64> {
        let config = &self.config;
        let (head_len, group) = (config.head_len, config.query_heads / config.kv_heads);
        let first = config.layers[layer].window.map_or(0, |window| (position + 1).saturating_sub(window));
        let mut out = vec![0.0; query.len()];
        for (h, out) in out.chunks_exact_mut(head_len).enumerate() {
            let query = &query[h * head_len..][..head_len];
            let at = h / group * head_len;
            let keys = &self.keys[layer][first..=position];
            let mut weights: Vec<f64> =
                keys.iter().map(|k| dot_f64(query, &k[at..at + head_len]) * config.query_scale).collect();
            softmax(&mut weights);
            for (weight, value) in weights.iter().zip(&self.values[layer][first..=position]) {
                out.iter_mut().zip(&value[at..]).for_each(|(o, v)| *o += weight * v);
            }
        }
        out
    }

    fn feed_forward(&mut self, prefix: &str, input: &Rows) -> Result<Rows, ReferenceError> {
        let mut gate = self.multiply(&format!("{prefix}ffn_gate.weight"), input)?;
        let up = self.multiply(&format!("{prefix}ffn_up.weight"), input)?;
        let function = if self.config.is_gelu { gelu_tanh } else { silu };
        for (gate, up) in gate.iter_mut().flatten().zip(up.iter().flatten()) {
            *gate = function(*gate) * up;
        }
        self.multiply(&format!("{prefix}ffn_down.weight"), &gate)
    }

    /// Adds to the residual stream, through a norm when the file has one.
    fn add(&mut self, residual: &mut Rows, mut delta: Rows, norm: &str) -> Result<(), ReferenceError> {
        if let Some(weight) = read_vector(&mut self.file, norm)? {
            delta.iter_mut().for_each(|row| rms_norm(row, &weight, self.config.epsilon));
        }
        residual.iter_mut().flatten().zip(delta.iter().flatten()).for_each(|(x, d)| *x += d);
        Ok(())
    }

    fn normalised(&mut self, rows: &Rows, name: &str) -> Result<Rows, ReferenceError> {
        self.entry(name, self.config.width)?;
        let weight = read_vector(&mut self.file, name)?.unwrap_or_default();
        let mut rows = rows.clone();
        rows.iter_mut().for_each(|row| rms_norm(row, &weight, self.config.epsilon));
        Ok(rows)
    }

    /// `matrix · row` for every row.
    fn multiply(&mut self, name: &str, input: &Rows) -> Result<Rows, ReferenceError> {
        let entry = self.entry(name, input.first().map_or(0, Vec::len))?;
        let rounded: Rows;
        let input = if self.roundings.int8_activations && !entry.tensor_type.is_float() {
            rounded = input.iter().map(|row| int8_round_trip(row)).collect();
            &rounded
        } else {
            input
        };
        let mut output: Rows = input.iter().map(|_| Vec::with_capacity(entry.rows as usize)).collect();
        for first in (0..entry.rows).step_by(ROWS_PER_READ as usize) {
            let count = ROWS_PER_READ.min(entry.rows - first);
            let weights = decode_row(entry.tensor_type, &self.file.read_rows(&entry, first, count)?)?;
            for row in weights.chunks_exact(entry.columns as usize) {
                output.iter_mut().zip(input).for_each(|(out, x)| out.push(dot(row, x)));
            }
        }
        Ok(output)
    }

    /// A tensor that must be there with rows of this length.
    fn entry(&self, name: &str, columns: usize) -> Result<crate::gguf::TensorEntry, ReferenceError> {
        let missing = || ReferenceError::MissingTensor(name.to_owned());
        let entry = self.file.tensor(name).ok_or_else(missing)?.clone();
        if entry.columns != columns as u64 {
            return Err(ReferenceError::Shape {
                name: name.to_owned(),
                wanted_columns: columns,
                found_columns: entry.columns as usize,
            });
        }
        Ok(entry)
    }
}
