//! The stable text form of a program, for people and golden tests.

use std::fmt;

use fanlight_messages::program::*;

/// Frequencies printed on one line.
const FREQUENCIES_PER_LINE: usize = 4;

/// Displays a program: `v` values, `a` activations, `m` matrices, `w` vectors, `r` rotary tables, `l` layers.
#[derive(Debug, Clone, Copy)]
pub struct ProgramText<'a>(pub &'a Program);

impl fmt::Display for ProgramText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = self.0;
        writeln!(f, "vocabulary {}, context {}", program.vocabulary_len, program.context_len_max)?;
        writeln!(f, "values")?;
        for (index, value) in program.values.iter().enumerate() {
            writeln!(f, "  v{index} {}[{}]", value.name, value.len)?;
        }
        writeln!(f, "activations")?;
        for (index, row) in program.activations.iter().enumerate() {
            let planes = if row.keeps_values { "codes and values" } else { "codes" };
            writeln!(f, "  a{index} {}[{}] {planes}", row.name, row.columns)?;
        }
        writeln!(f, "matrices")?;
        for (index, matrix) in program.matrices.iter().enumerate() {
            write_matrix(f, index, matrix)?;
        }
        writeln!(f, "vectors")?;
        for (index, vector) in program.vectors.iter().enumerate() {
            write_vector(f, index, vector)?;
        }
        writeln!(f, "ropes")?;
        for (index, rope) in program.ropes.iter().enumerate() {
            write_rope(f, index, rope)?;
        }
        writeln!(f, "layers")?;
        for (index, shape) in program.layers.iter().enumerate() {
            let AttentionShape { query_heads, kv_heads, head_len } = shape;
            writeln!(f, "  l{index} {query_heads} query heads, {kv_heads} key-value heads of {head_len}")?;
        }
        writeln!(f, "body")?;
        for op in &program.body {
            write_op(f, op)?;
        }
        writeln!(f, "head")?;
        write_op(f, &program.head)?;
        if program.logits_scale != 1.0 {
            writeln!(f, "logits scale {}", program.logits_scale)?;
        }
        match program.logits_soft_cap {
            Some(cap) => writeln!(f, "logits soft cap {cap}"),
            None => Ok(()),
        }
    }
}

fn write_matrix(f: &mut fmt::Formatter<'_>, index: usize, matrix: &MatrixSpec) -> fmt::Result {
    write!(f, "  m{index} {} {} {}x{} =", matrix.name, matrix.tensor_type, matrix.rows, matrix.columns)?;
    for part in &matrix.parts {
        match part.first_row {
            0 => write!(f, " {}[{}]", part.tensor, part.rows)?,
            first => write!(f, " {}[{first}..][{}]", part.tensor, part.rows)?,
        }
    }
    writeln!(f)
}

fn write_vector(f: &mut fmt::Formatter<'_>, index: usize, vector: &VectorSpec) -> fmt::Result {
    write!(f, "  w{index} {}[{}] =", vector.name, vector.len())?;
    for part in &vector.parts {
        write!(f, " {}[{}]", part.tensor.as_deref().unwrap_or("zeros"), part.len)?;
    }
    writeln!(f)
}

fn write_rope(f: &mut fmt::Formatter<'_>, index: usize, rope: &RopeSpec) -> fmt::Result {
    let pairs = rope.inverse_frequencies.len();
    write!(f, "  r{index} {:?}, {pairs} pairs, magnitude {}", rope.pairing, rope.magnitude)?;
    if let Some(QueryFactor { gain, period }) = rope.query_factor {
        write!(f, ", queries times 1 + {gain} ln(position / {period} + 1)")?;
    }
    writeln!(f)?;
    write_frequencies(f, &rope.inverse_frequencies)?;
    let Some(long) = &rope.long else { return Ok(()) };
    writeln!(f, "    in contexts beyond {}", long.beyond)?;
    write_frequencies(f, &long.inverse_frequencies)
}

fn write_frequencies(f: &mut fmt::Formatter<'_>, frequencies: &[f64]) -> fmt::Result {
    for line in frequencies.chunks(FREQUENCIES_PER_LINE) {
        write!(f, "   ")?;
        for frequency in line {
            write!(f, " {frequency:e}")?;
        }
        writeln!(f)?;
    }
    Ok(())
}

fn write_op(f: &mut fmt::Formatter<'_>, op: &Op) -> fmt::Result {
    match op {
        Op::Embed { table, scale, output } => {
            write!(f, "  v{} = embed m{} scale {scale}", output.0, table.0)?;
        }
        Op::Normalize { residual, delta, delta_bias, post_norm, delta_scale, weight, epsilon, output } => {
            write!(f, "  a{} = normalize v{}", output.0, residual.0)?;
            write_some(f, "+= v", delta.map(|id| id.0))?;
            write_some(f, "bias w", delta_bias.map(|id| id.0))?;
            write_some(f, "post norm w", post_norm.map(|id| id.0))?;
            write_some(f, "times ", Some(*delta_scale).filter(|scale| *scale != 1.0))?;
            write_some(f, "weight w", weight.map(|id| id.0))?;
            write!(f, " epsilon {epsilon}")?;
        }
        Op::Multiply { matrix, input, output, output_offset } => {
            write!(f, "  v{}[{output_offset}..] = m{} * a{}", output.0, matrix.0, input.0)?;
        }
        Op::Heads {
            layer,
            input,
            bias,
            query_norm,
            key_norm,
            norm_span,
            epsilon,
            rope,
            query_scale,
            output,
        } => {
            write!(f, "  v{} = heads l{layer} v{}", output.0, input.0)?;
            write_some(f, "bias w", bias.map(|id| id.0))?;
            write_some(f, "query norm w", query_norm.map(|id| id.0))?;
            write_some(f, "key norm w", key_norm.map(|id| id.0))?;
            if *norm_span == NormSpan::Row {
                write!(f, " over rows")?;
            }
            write!(f, " epsilon {epsilon}")?;
            write_some(f, "rope r", rope.map(|id| id.0))?;
            write!(f, " query scale {query_scale}")?;
        }
        Op::Attend { layer, query, window, soft_cap, output } => {
            write!(f, "  a{} = attend l{layer} v{}", output.0, query.0)?;
            write_some(f, "window ", *window)?;
            write_some(f, "soft cap ", *soft_cap)?;
        }
        Op::Activate { input, bias, gated, function, output } => {
            write!(f, "  a{} = {function:?} v{}", output.0, input.0)?;
            write_some(f, "bias w", bias.map(|id| id.0))?;
            if !gated {
                write!(f, " without a gate")?;
            }
        }
    }
    writeln!(f)
}

fn write_some<T: fmt::Display>(f: &mut fmt::Formatter<'_>, label: &str, value: Option<T>) -> fmt::Result {
    match value {
        Some(value) => write!(f, " {label}{value}"),
        None => Ok(()),
    }
}
