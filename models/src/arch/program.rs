//! Lowers a [`ModelSpec`] to the ops that machines run.
//!
//! Values and activations of one purpose and length are shared by all layers. Tensors of one type that stand
//! side by side in a row (`q|k|v`, `gate|up`) become one matrix; where types differ, several matrices write
//! neighbouring parts of that row.

use std::collections::BTreeMap;

use fanlight_messages::program::*;

use super::error::ArchError;
use super::rope::resolve;
use crate::spec::{AttentionSpec, FeedForwardSpec, ModelSpec, Weight};

/// Values of the tensors that [`ModelSpec::small_tensors`] lists, by name.
pub type SmallTensors = BTreeMap<String, Vec<f32>>;

/// Writes the program of a model.
///
/// # Errors
/// [`ArchError::SmallTensorUnread`] and [`ArchError::SmallTensorValues`] when `small` lacks values or holds
/// bad ones.
pub fn program(spec: &ModelSpec, small: &SmallTensors) -> Result<Program, ArchError> {
    let ropes = spec.ropes.iter().map(|rope| resolve(rope, small)).collect::<Result<Vec<_>, _>>()?;
    let mut lowering =
        Lowering { epsilon: spec.epsilon, delta_scale: spec.residual_scale, ..Lowering::default() };
    let residual = lowering.value("residual", spec.width);
    let delta = lowering.value("delta", spec.width);
    let normed = lowering.activation("normed", spec.width);
    let table = lowering.matrix("token_embd".to_owned(), &[&spec.embedding]);
    lowering.body.push(Op::Embed { table, scale: spec.embed_scale, output: residual });
    let rows = Rows { residual, delta, normed };
    let mut pending = Pending::default();
    for (layer, layer_spec) in (0u32..).zip(&spec.layers) {
        pending = lowering.attention(layer, &layer_spec.attention, rows, pending);
        pending = lowering.feed_forward(layer, &layer_spec.feed_forward, rows, pending);
    }
    lowering.normalize(Some(&spec.output_norm), rows, pending);
    let logits = lowering.value("logits", spec.vocabulary_len);
    let matrix = match &spec.head {
        Some(head) => lowering.matrix("output".to_owned(), &[head]),
        None => table,
    };
    lowering.mark_reader(matrix, normed);
    Ok(Program {
        values: lowering.values,
        activations: lowering.activations,
        matrices: lowering.matrices,
        vectors: lowering.vectors,
        ropes,
        layers: spec.layers.iter().map(|layer| layer.attention.shape).collect(),
        body: lowering.body,
        head: Op::Multiply { matrix, input: normed, output: logits, output_offset: 0 },
        logits_scale: spec.logits_scale,
        logits_soft_cap: spec.logits_soft_cap,
        vocabulary_len: spec.vocabulary_len,
        context_len_max: spec.context_len_max,
    })
}

/// Rows that every layer uses.
#[derive(Clone, Copy)]
struct Rows {
    residual: ValueId,
    delta: ValueId,
    normed: ActivationId,
}

/// What the next norm adds to the residual stream first.
#[derive(Default)]
struct Pending {
    delta: Option<ValueId>,
    bias: Option<VectorId>,
    post_norm: Option<VectorId>,
}

/// The program as far as it is written.
#[derive(Default)]
struct Lowering {
    epsilon: f32,
    delta_scale: f32,
    values: Vec<ValueSpec>,
    activations: Vec<ActivationSpec>,
    matrices: Vec<MatrixSpec>,
    vectors: Vec<VectorSpec>,
    body: Vec<Op>,
}

impl Lowering {
    fn value(&mut self, name: &'static str, len: u32) -> ValueId {
        let wanted = ValueSpec { name, len };
        let index = self.values.iter().position(|value| *value == wanted).unwrap_or_else(|| {
            self.values.push(wanted);
            self.values.len() - 1
        });
        ValueId(index as u32)
    }

    fn activation(&mut self, name: &'static str, columns: u32) -> ActivationId {
        let same = |row: &ActivationSpec| row.name == name && row.columns == columns;
        let index = self.activations.iter().position(same).unwrap_or_else(|| {
            self.activations.push(ActivationSpec { name, columns, keeps_values: false });
            self.activations.len() - 1
        });
        ActivationId(index as u32)
    }

    /// Stacks weights of one type and width.
    fn matrix(&mut self, name: String, weights: &[&Weight]) -> MatrixId {
        let part = |weight: &&Weight| MatrixPart {
            tensor: weight.tensor.clone(),
            first_row: weight.first_row.into(),
            rows: weight.rows.into(),
        };
        if let Some(first) = weights.first() {
            self.matrices.push(MatrixSpec {
                name,
                tensor_type: first.tensor_type,
                rows: weights.iter().map(|weight| u64::from(weight.rows)).sum(),
                columns: first.columns,
                parts: weights.iter().map(part).collect(),
            });
        }
        MatrixId(self.matrices.len() as u32 - 1)
    }

    fn vector(&mut self, name: String, parts: &[VectorPart]) -> VectorId {
        self.vectors.push(VectorSpec { name, parts: parts.to_vec() });
        VectorId(self.vectors.len() as u32 - 1)
    }

    /// A vector of one tensor, named after it.
    fn tensor_vector(&mut self, part: &VectorPart) -> VectorId {
        let tensor = part.tensor.as_deref().unwrap_or("zeros");
        let name = tensor.strip_suffix(".weight").unwrap_or(tensor).to_owned();
        self.vector(name, std::slice::from_ref(part))
    }

    /// Float matrices need the float elements of their input.
    fn mark_reader(&mut self, matrix: MatrixId, input: ActivationId) {
        if self.matrices[matrix.index()].tensor_type.is_float() {
            self.activations[input.index()].keeps_values = true;
        }
    }

    fn multiply(&mut self, matrix: MatrixId, input: ActivationId, output: ValueId, output_offset: u32) {
        self.mark_reader(matrix, input);
        self.body.push(Op::Multiply { matrix, input, output, output_offset });
    }

    /// Multiplies `input` by neighbouring weights into the row `output`, with one matrix per run of one type.
    fn multiply_stacked(
        &mut self,
        layer: u32,
        labelled: &[(&str, &Weight)],
        separator: &str,
        input: ActivationId,
        output: ValueId,
    ) {
        let mut offset = 0;
        for run in
            labelled.chunk_by(|(_, a), (_, b)| a.tensor_type == b.tensor_type && a.columns == b.columns)
        {
            let (labels, weights): (Vec<&str>, Vec<&Weight>) = run.iter().copied().unzip();
            let matrix = self.matrix(format!("blk.{layer}.{}", labels.join(separator)), &weights);
            self.multiply(matrix, input, output, offset);
            offset += weights.iter().map(|weight| weight.rows).sum::<u32>();
        }
    }

    fn optional_vector(&mut self, part: &Option<VectorPart>) -> Option<VectorId> {
        part.as_ref().map(|part| self.tensor_vector(part))
    }

    fn normalize(&mut self, norm: Option<&VectorPart>, rows: Rows, pending: Pending) {
        let weight = norm.map(|norm| self.tensor_vector(norm));
        self.body.push(Op::Normalize {
            residual: rows.residual,
            delta: pending.delta,
            delta_bias: pending.bias,
            post_norm: pending.post_norm,
            delta_scale: if pending.delta.is_some() { self.delta_scale } else { 1.0 },
            weight,
            epsilon: self.epsilon,
            output: rows.normed,
        });
    }

    fn attention(&mut self, layer: u32, spec: &AttentionSpec, rows: Rows, pending: Pending) -> Pending {
        self.normalize(spec.norm.as_ref(), rows, pending);
        let qkv = self.value("qkv", spec.shape.qkv_len());
        let query = self.value("query", spec.shape.query_len());
        let attended = self.activation("attended", spec.shape.query_len());
        let [q, k, v] = &spec.qkv;
        self.multiply_stacked(layer, &[("q", q), ("k", k), ("v", v)], "", rows.normed, qkv);
        let bias = spec.bias.as_ref().map(|parts| self.vector(format!("blk.{layer}.qkv_bias"), parts));
        let query_norm = self.optional_vector(&spec.query_norm);
        let key_norm = self.optional_vector(&spec.key_norm);
        self.body.push(Op::Heads {
            layer,
            input: qkv,
            bias,
            query_norm,
            key_norm,
            norm_span: spec.norm_span,
            epsilon: self.epsilon,
            rope: spec.rope.map(RopeId),
            query_scale: spec.query_scale,
            output: query,
        });
        let (window, soft_cap) = (spec.window, spec.soft_cap);
        self.body.push(Op::Attend { layer, query, window, soft_cap, output: attended });
        let matrix = self.matrix(format!("blk.{layer}.attn_output"), &[&spec.output]);
        self.multiply(matrix, attended, rows.delta, 0);
        let bias = self.optional_vector(&spec.output_bias);
        let post_norm = self.optional_vector(&spec.post_norm);
        Pending { delta: Some(rows.delta), bias, post_norm }
    }

    fn feed_forward(&mut self, layer: u32, spec: &FeedForwardSpec, rows: Rows, pending: Pending) -> Pending {
        self.normalize(spec.norm.as_ref(), rows, pending);
        let (name, gated) = (if spec.gate.is_some() { "gate_up" } else { "up" }, spec.gate.is_some());
        let weights: Vec<(&str, &Weight)> =
            spec.gate.iter().map(|gate| ("gate", gate)).chain([("up", &spec.up)]).collect();
        let row = self.value(name, weights.iter().map(|(_, weight)| weight.rows).sum());
        let activated = self.activation("activated", spec.down.columns);
        self.multiply_stacked(layer, &weights, "_", rows.normed, row);
        let bias = spec.bias.as_ref().map(|parts| self.vector(format!("blk.{layer}.{name}_bias"), parts));
        self.body.push(Op::Activate { input: row, bias, gated, function: spec.function, output: activated });
        let matrix = self.matrix(format!("blk.{layer}.ffn_down"), &[&spec.down]);
        self.multiply(matrix, activated, rows.delta, 0);
        let bias = self.optional_vector(&spec.down_bias);
        let post_norm = self.optional_vector(&spec.post_norm);
        Pending { delta: Some(rows.delta), bias, post_norm }
    }
}
