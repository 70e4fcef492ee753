//! The plan as people read it: one line per kind of buffer, to the byte.

use std::collections::BTreeMap;
use std::fmt;

use fanlight_messages::plan::{BufferOwner, GpuPlan};
use fanlight_messages::program::Program;

/// Prints a plan, grouped by what the buffers are for.
///
/// ```text
/// what                     buffers            bytes
/// weights Q4_1                  61       76,480,512
/// …
/// total                        412      210,763,776
/// ```
#[derive(Debug, Clone, Copy)]
pub struct PlanTable<'a> {
    /// The model, for the names of formats.
    pub program: &'a Program,
    /// Its plan.
    pub plan: &'a GpuPlan,
}

impl PlanTable<'_> {
    /// Lines in order: what, buffers, bytes.
    pub fn lines(&self) -> Vec<(String, usize, u64)> {
        let mut sums: BTreeMap<(u8, String), (usize, u64)> = BTreeMap::new();
        for buffer in &self.plan.buffers {
            let sum = sums.entry(self.label(buffer.owner)).or_default();
            *sum = (sum.0 + 1, sum.1 + buffer.bytes);
        }
        sums.into_iter().map(|((_, what), (count, bytes))| (what, count, bytes)).collect()
    }

    /// Place in the table and name of a kind of buffer.
    fn label(&self, owner: BufferOwner) -> (u8, String) {
        let logits = match self.program.head {
            fanlight_messages::program::Op::Multiply { output, .. } => Some(output),
            _ => None,
        };
        let (order, name) = match owner {
            BufferOwner::Page { matrix, .. } => {
                let format = self.program.matrices.get(matrix.index()).map(|m| m.tensor_type.name());
                return (0, format!("weights {}", format.unwrap_or("of unknown format")));
            }
            BufferOwner::Vectors => (1, "norms and biases"),
            BufferOwner::Rope(_) => (2, "position tables"),
            BufferOwner::Keys { .. } => (3, "keys"),
            BufferOwner::Values { .. } => (4, "values"),
            BufferOwner::Value(id) if Some(id) == logits => (6, "logits"),
            BufferOwner::Value(_) => (5, "activations, f32"),
            BufferOwner::Activation(..) => (7, "activations, quantised"),
            BufferOwner::AttentionPartials => (8, "attention partials"),
            BufferOwner::ChoicePartials => (9, "choice partials"),
            BufferOwner::Sampling | BufferOwner::Selection => (9, "sampling"),
            BufferOwner::History | BufferOwner::Matches | BufferOwner::Draft | BufferOwner::Ancestors => {
                (9, "drafts")
            }
            BufferOwner::Tokens | BufferOwner::Control | BufferOwner::Faults | BufferOwner::Params => {
                (10, "control and parameters")
            }
            BufferOwner::Landing | BufferOwner::Staging => (11, "upload buffers"),
            BufferOwner::Readback(_) => (12, "readback"),
            BufferOwner::Slot(_) => (0, "ring of streamed pages"),
            BufferOwner::Gathered | BufferOwner::GatheredIndex => (0, "gathered embedding rows"),
        };
        (order, name.to_string())
    }
}

impl fmt::Display for PlanTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<26}{:>8}{:>18}", "what", "buffers", "bytes")?;
        for (what, count, bytes) in self.lines() {
            writeln!(f, "{what:<26}{count:>8}{:>18}", grouped(bytes))?;
        }
        let total = grouped(self.plan.total_bytes());
        write!(f, "{:<26}{:>8}{total:>18}", "total", self.plan.buffers.len())
    }
}

/// Digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
