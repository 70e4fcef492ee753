//! The forward pass: embeddings, layers, head.

use super::config::{Config, read_vector};
use super::math::{dot, dot_f64, gelu_tanh, int8_round_trip, rms_norm, silu, softmax};
use super::{Output, Reference, ReferenceError};
use crate::blocks::decode_row;

/// Rows decoded at a time: bounds memory to a few MB whatever the matrix.
const ROWS_PER_READ: u64 = 256;

/// GELU out of a table of halves, which ends where the function is its argument or zero.
fn table_gelu(x: f64) -> f64 {
    let half = |x: f64| half::f16::from_f64(x).to_f64();
    if x.abs() < 10.0 { half(gelu_tanh(half(x))) } else { x.max(0.0) }
}

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
            let input = self.block_input(&residual, &format!("{prefix}attn_norm.weight"))?;
            let attended = self.attention(layer, &input)?;
            let delta = self.biased(&format!("{prefix}attn_output"), &attended)?;
            self.add(&mut residual, delta, &format!("{prefix}post_attention_norm.weight"))?;
            let input = self.block_input(&residual, &format!("{prefix}ffn_norm.weight"))?;
            let delta = self.feed_forward(&prefix, &input)?;
            self.add(&mut residual, delta, &format!("{prefix}post_ffw_norm.weight"))?;
            layer_outputs.push(residual.clone());
        }
        let last = self.normalised(&residual, "output_norm.weight")?;
        let is_tied = self.file.tensor("output.weight").is_none();
        let head = if is_tied { "token_embd.weight" } else { "output.weight" };
        let mut logits = self.multiply(head, &last)?;
        logits.iter_mut().flatten().for_each(|x| *x /= self.config.logits_divisor);
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
        let first = self.keys[layer].len();
        if let Some(rope) = self.config.layers[layer].rope {
            let rope = &self.config.ropes[rope];
            for rows in [&mut queries, &mut keys] {
                for (i, row) in rows.iter_mut().enumerate() {
                    row.chunks_exact_mut(head_len).for_each(|head| rope.rotate(head, first + i));
                }
            }
        }
        if let Some((gain, period)) = self.config.query_growth {
            for (i, row) in queries.iter_mut().enumerate() {
                let factor = 1.0 + gain * (((first + i) / period) as f64 + 1.0).ln();
                row.iter_mut().for_each(|x| *x *= factor);
            }
        }
        if self.roundings.f16_kv {
            let round = |x: &mut f64| *x = half::f16::from_f32(*x as f32).to_f64();
            keys.iter_mut().chain(values.iter_mut()).flatten().for_each(round);
        }
        self.keys[layer].extend(keys);
        self.values[layer].extend(values);
        Ok(queries.iter().enumerate().map(|(i, row)| self.attend(layer, first + i, row)).collect())
    }

    /// One of q, k, v: matrix (its own or a part of the one for all three), bias, norm.
    fn projection(&mut self, layer: usize, which: &str, input: &Rows) -> Result<Rows, ReferenceError> {
        let fused = format!("blk.{layer}.attn_qkv.weight");
        let mut rows = if self.file.tensor(&fused).is_some() {
            let Config { query_heads, kv_heads, head_len, .. } = self.config;
            let (query, kv) = (query_heads * head_len, kv_heads * head_len);
            let range = match which {
                "q" => 0..query,
                "k" => query..query + kv,
                _ => query + kv..query + 2 * kv,
            };
            let rows = self.multiply(&fused, input)?;
            rows.into_iter().map(|row| row[range.clone()].to_vec()).collect()
        } else {
            self.biased(&format!("blk.{layer}.attn_{which}"), input)?
        };
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
            let score = |k: &Vec<f64>| {
                let score = dot_f64(query, &k[at..at + head_len]) * config.query_scale;
                config.scores_soft_cap.map_or(score, |cap| cap * (score / cap).tanh())
            };
            let mut weights: Vec<f64> = keys.iter().map(score).collect();
            softmax(&mut weights);
            for (weight, value) in weights.iter().zip(&self.values[layer][first..=position]) {
                out.iter_mut().zip(&value[at..]).for_each(|(o, v)| *o += weight * v);
            }
        }
        out
    }

    fn feed_forward(&mut self, prefix: &str, input: &Rows) -> Result<Rows, ReferenceError> {
        let mut up = self.biased(&format!("{prefix}ffn_up"), input)?;
        let down_len = self.file.tensor(&format!("{prefix}ffn_down.weight")).map_or(0, |down| down.columns);
        let has_gate = self.file.tensor(&format!("{prefix}ffn_gate.weight")).is_some();
        let mut gate = if has_gate {
            self.biased(&format!("{prefix}ffn_gate"), input)?
        } else if up.iter().all(|row| row.len() as u64 == 2 * down_len as u64) {
            // The first half is the gate.
            up.iter_mut().map(|row| row.drain(..down_len as usize).collect()).collect()
        } else {
            let gate = up.clone();
            up.iter_mut().flatten().for_each(|x| *x = 1.0);
            gate
        };
        let function = match (self.config.is_gelu, self.roundings.f16_gelu) {
            (false, _) => silu,
            (true, false) => gelu_tanh,
            (true, true) => table_gelu,
        };
        for (gate, up) in gate.iter_mut().flatten().zip(up.iter().flatten()) {
            *gate = function(*gate) * up;
        }
        self.biased(&format!("{prefix}ffn_down"), &gate)
    }

    /// A matrix and the bias that the file may have for it.
    fn biased(&mut self, name: &str, input: &Rows) -> Result<Rows, ReferenceError> {
        let mut rows = self.multiply(&format!("{name}.weight"), input)?;
        if let Some(bias) = read_vector(&mut self.file, &format!("{name}.bias"))? {
            rows.iter_mut().for_each(|r| r.iter_mut().zip(&bias).for_each(|(x, &b)| *x += f64::from(b)));
        }
        Ok(rows)
    }

    /// Adds to the residual stream, through a norm when the file has one.
    fn add(&mut self, residual: &mut Rows, mut delta: Rows, norm: &str) -> Result<(), ReferenceError> {
        if let Some(weight) = read_vector(&mut self.file, norm)? {
            delta.iter_mut().for_each(|row| rms_norm(row, &weight, self.config.epsilon));
        }
        let scale = self.config.residual_scale;
        residual.iter_mut().flatten().zip(delta.iter().flatten()).for_each(|(x, d)| *x += scale * d);
        Ok(())
    }

    /// The residual stream as a block reads it.
    fn block_input(&mut self, rows: &Rows, norm: &str) -> Result<Rows, ReferenceError> {
        if self.config.has_pre_norms { self.normalised(rows, norm) } else { Ok(rows.clone()) }
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
