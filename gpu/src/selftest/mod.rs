//! The self-test: every pair of pipelines that may compute the same token must agree in every bit on this
//! device.
//!
//! "Explicit fma" in a shader is a means, not a proof. What is proved here, on the visitor's device and
//! driver, is u32 equality: lane kernels of every token count against one token, the GEMM against the lane
//! kernel, and every form of attention against plain decoding.

mod attention;
mod blocks;
mod matrix;

use fanlight_messages::TensorType;
use fanlight_messages::layout::SlabLayout;
use fanlight_messages::plan::KvFormat;
use fanlight_messages::program::Program;

use crate::device::{Device, GpuError};
use crate::lab::Lab;

/// A matrix shape to test: format and width.
pub type MatrixCase = (TensorType, u32);

/// What to test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfTestPlan {
    /// Weight types and widths.
    pub matrices: Vec<MatrixCase>,
    /// Head lengths, query heads per KV head and cache formats.
    pub attention: Vec<(u32, u32, KvFormat)>,
}

/// One verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What was compared.
    pub name: String,
    /// `None` when equal, else the first difference.
    pub difference: Option<String>,
}

impl SelfTestPlan {
    /// Every format once, the common ones also at a width that pads and at one with long slabs; every head
    /// length of published models.
    pub fn everything() -> Self {
        let once = TensorType::ALL.into_iter().map(|t| (t, if t.block_len() == 256 { 512 } else { 288 }));
        let more = [(TensorType::Q4_0, 2144), (TensorType::Q4_0, 4864), (TensorType::Q4K, 17_152)];
        Self {
            matrices: once.chain(more).collect(),
            attention: vec![
                (64, 3, KvFormat::F16),
                (64, 7, KvFormat::F32),
                (128, 4, KvFormat::F16),
                (256, 4, KvFormat::F16),
                (32, 1, KvFormat::F32),
            ],
        }
    }

    /// What a program uses.
    pub fn of(program: &Program, kv_format: KvFormat) -> Self {
        let mut matrices: Vec<MatrixCase> =
            program.matrices.iter().map(|m| (m.tensor_type, m.columns)).collect();
        matrices.sort_unstable();
        matrices.dedup();
        let mut attention: Vec<_> = program
            .layers
            .iter()
            .map(|l| (l.head_len, l.query_heads / l.kv_heads.max(1), kv_format))
            .collect();
        attention.sort_unstable_by_key(|(head, group, _)| (*head, *group));
        attention.dedup();
        Self { matrices, attention }
    }
}

/// Runs the plan; `progress` hears (done, total). Differences are verdicts, not errors.
pub async fn run(
    device: &Device,
    plan: &SelfTestPlan,
    mut progress: impl FnMut(usize, usize),
) -> Result<Vec<Verdict>, GpuError> {
    let lab = Lab::new(device);
    let total = plan.matrices.len() + plan.attention.len();
    let mut verdicts = Vec::new();
    for (done, (tensor_type, columns)) in plan.matrices.iter().enumerate() {
        progress(done, total);
        verdicts.extend(matrix::compare(&lab, *tensor_type, SlabLayout::for_columns(*columns)).await?);
    }
    for (done, (head_len, group, kv_format)) in plan.attention.iter().enumerate() {
        progress(plan.matrices.len() + done, total);
        verdicts.extend(attention::compare(&lab, *head_len, *group, *kv_format).await?);
    }
    progress(total, total);
    Ok(verdicts)
}

/// The first word that differs between equally long answers.
fn first_difference(expected: &[u32], got: &[u32], row_len: usize) -> Option<String> {
    if expected.len() != got.len() {
        return Some(format!("{} words expected, {} came", expected.len(), got.len()));
    }
    let at = expected.iter().zip(got).position(|(e, g)| e != g)?;
    let wrong = expected.iter().zip(got).filter(|(e, g)| e != g).count();
    Some(format!(
        "{wrong} of {} differ, first at row {} element {}: {:?} expected, {:?} came",
        got.len(),
        at / row_len,
        at % row_len,
        f32::from_bits(expected[at]),
        f32::from_bits(got[at]),
    ))
}
