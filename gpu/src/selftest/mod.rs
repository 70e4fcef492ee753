//! The self-test: every pair of pipelines that may compute the same token must agree in every bit on this
//! device.
//!
//! "Explicit fma" in a shader is a means, not a proof. What is proved here, on the visitor's device and
//! driver, is u32 equality: lane kernels of every token count against one token, the GEMM against the lane
//! kernel, and every form of attention against plain decoding.

mod attention;
mod blocks;
mod cover;
mod load;
mod matrix;

use fanlight_messages::TensorType;
use fanlight_messages::plan::KvFormat;
use fanlight_messages::program::Program;

use self::cover::{Comparison, cover};
pub(crate) use self::load::{Checked, Verdicts, differing};
use crate::device::{Device, GpuError};
use crate::lab::Lab;

/// A matrix shape to test: format and width.
pub type MatrixCase = (TensorType, u32);

/// A head shape to test: head length, query heads per KV head and cache format.
pub type AttentionCase = (u32, u32, KvFormat);

/// How many of a plan's comparisons are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Every form of every case: the proof.
    Whole,
    /// As few as have every weight type, resident format in each kernel, way of cutting rows, token count,
    /// head length and place among the chunks in one comparison at least. For adapters that compile for
    /// seconds.
    Cover,
}

/// What to test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfTestPlan {
    /// Weight types and widths.
    pub matrices: Vec<MatrixCase>,
    /// Head shapes.
    pub attention: Vec<AttentionCase>,
    /// How many of their comparisons.
    pub scope: Scope,
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
    pub fn everything(scope: Scope) -> Self {
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
            scope,
        }
    }

    /// What a program uses, whole.
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
        Self { matrices, attention, scope: Scope::Whole }
    }

    fn matrix_pairs(&self, packed_dot: bool) -> Vec<matrix::Pair> {
        self.scope.of(matrix::pairs(&self.matrices, packed_dot))
    }

    fn attention_pairs(&self) -> Vec<attention::Pair> {
        self.scope.of(attention::pairs(&self.attention))
    }
}

impl Scope {
    fn of<C: Comparison>(self, all: Vec<C>) -> Vec<C> {
        match self {
            Self::Whole => all,
            Self::Cover => cover(&all),
        }
    }
}

/// Runs the plan; `progress` hears (done, total) in cases. Differences are verdicts, not errors.
pub async fn run(
    device: &Device,
    plan: &SelfTestPlan,
    mut progress: impl FnMut(usize, usize),
) -> Result<Vec<Verdict>, GpuError> {
    let lab = Lab::new(device);
    let matrices = plan.matrix_pairs(device.facts().has_packed_dot);
    compare(&lab, &matrices, &plan.attention_pairs(), &mut progress).await
}

/// Makes these comparisons; those of a case follow each other.
async fn compare(
    lab: &Lab,
    matrices: &[matrix::Pair],
    attention: &[attention::Pair],
    progress: &mut impl FnMut(usize, usize),
) -> Result<Vec<Verdict>, GpuError> {
    let matrices: Vec<_> = matrices.chunk_by(|a, b| a.case == b.case).collect();
    let attention: Vec<_> = attention.chunk_by(|a, b| a.case() == b.case()).collect();
    let total = matrices.len() + attention.len();
    let mut verdicts = Vec::new();
    for (done, pairs) in matrices.iter().enumerate() {
        progress(done, total);
        verdicts.extend(matrix::compare(lab, pairs).await?);
    }
    for (done, pairs) in attention.iter().enumerate() {
        progress(matrices.len() + done, total);
        verdicts.extend(attention::compare(lab, pairs).await?);
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use fanlight_messages::layout::ResidentFormat;

    use super::matrix::Family;
    use super::*;
    use crate::kernels::attention::Form;
    use crate::kernels::matrix::BUCKETS;

    fn aspects<C: Comparison>(pairs: &[C]) -> HashSet<C::Aspect> {
        pairs.iter().flat_map(Comparison::aspects).collect()
    }

    fn pipelines(plan: &SelfTestPlan) -> usize {
        let matrices = plan.matrix_pairs(true).into_iter().flat_map(|pair| pair.pipelines());
        let attention = plan.attention_pairs().into_iter().flat_map(|pair| pair.pipelines());
        matrices.chain(attention).collect::<HashSet<_>>().len()
    }

    #[test]
    fn the_cover_has_every_aspect_of_the_whole() {
        let [whole, cover] = [Scope::Whole, Scope::Cover].map(SelfTestPlan::everything);
        for packed_dot in [true, false] {
            let [whole, cover] = [&whole, &cover].map(|plan| plan.matrix_pairs(packed_dot));
            assert!(cover.len() < whole.len() / 2, "{} of {} pairs", cover.len(), whole.len());
            assert_eq!(aspects(&cover), aspects(&whole));
        }
        let [all, few] = [&whole, &cover].map(SelfTestPlan::attention_pairs);
        assert!(few.len() < all.len() / 2, "{} of {} pairs", few.len(), all.len());
        assert_eq!(aspects(&few), aspects(&all));
        let [all, few] = [&whole, &cover].map(pipelines);
        assert!(few < all * 3 / 5, "{few} of {all} pipelines");
    }

    /// Each axis counted by its own list, not by what the whole plan happens to hold.
    #[test]
    fn the_cover_has_every_value_of_every_axis() {
        let plan = SelfTestPlan::everything(Scope::Cover);
        let found = aspects(&plan.matrix_pairs(true));
        for tensor_type in TensorType::ALL {
            let format = ResidentFormat::of(tensor_type);
            assert!(found.contains(&matrix::Aspect::Repack(tensor_type)), "{tensor_type}");
            for family in [Family::Few, Family::Many, Family::Gemm] {
                assert!(found.contains(&matrix::Aspect::Format(format, family)), "{tensor_type} {family:?}");
            }
        }
        for tokens in &BUCKETS[1..] {
            let wanted = [true, false].map(|is_float| matrix::Aspect::Bucket(*tokens, is_float));
            assert!(wanted.iter().all(|aspect| found.contains(aspect)), "×{tokens}");
        }
        assert!(found.contains(&matrix::Aspect::Shift));
        let found = aspects(&plan.attention_pairs());
        for form in [Form::Split, Form::Tiled, Form::Tree] {
            for kv_format in [KvFormat::F16, KvFormat::F32] {
                assert!(
                    found.contains(&attention::Aspect::Form(form, 8, kv_format)),
                    "{form:?} {kv_format:?}"
                );
            }
        }
        for head_len in [32, 64, 128, 256] {
            assert!(found.contains(&attention::Aspect::Head(head_len)), "{head_len}");
        }
    }

    #[test]
    fn a_lost_aspect_shows() {
        let whole = SelfTestPlan::everything(Scope::Whole);
        let poor = SelfTestPlan {
            matrices: whole.matrices.iter().copied().filter(|(t, _)| *t != TensorType::Q3K).collect(),
            attention: whole.attention.iter().copied().filter(|(head_len, ..)| *head_len != 256).collect(),
            scope: Scope::Cover,
        };
        assert_ne!(aspects(&poor.matrix_pairs(true)), aspects(&whole.matrix_pairs(true)));
        assert_ne!(aspects(&poor.attention_pairs()), aspects(&whole.attention_pairs()));
    }
}
