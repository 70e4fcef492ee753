//! What is compared before a loaded model uses it: the pipelines that the model has just compiled, no others.

use std::cell::RefCell;
use std::collections::HashMap;

use super::attention::{self, Comparands};
use super::matrix::Pair;
use super::{AttentionCase, MatrixCase, Verdict, compare};
use crate::device::GpuError;
use crate::kernels::attention::{Form, QUERIES_MAX, Variant};
use crate::lab::Lab;

/// Cache lengths: before the edge of a chunk, and within the fourth, where a window begins in the second.
const BASES: [u32; 2] = [60, 250];

/// What of a model is compared with plain decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Checked {
    /// Prompt batches: by the lane kernel of so many tokens, and by the GEMM where batches are longer.
    Prompts {
        /// Tokens of the lane kernel.
        lane: u32,
        /// Tokens of the longest batch.
        batch_tokens: u32,
    },
    /// Steps that verify a tree.
    Tree {
        /// Its nodes.
        nodes: u32,
        /// Nodes that one dispatch of attention takes at most.
        partial_rows: u32,
    },
}

/// What was compared: which pipelines, for which matrices and heads.
pub(crate) type Key = (Checked, Vec<MatrixCase>, Vec<AttentionCase>);

/// What was found on a device. A driver compiles a text to the same code as long as the device is open, so
/// models that are loaded again, or that are of one family, need not be compared again.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(RefCell<HashMap<Key, Option<Verdict>>>);

impl Verdicts {
    /// What is known.
    pub(crate) fn get(&self, key: &Key) -> Option<Option<Verdict>> {
        self.0.borrow().get(key).cloned()
    }

    /// Remembers a finding; when there are too many, those before it are forgotten.
    pub(crate) fn keep(&self, key: Key, found: Option<Verdict>) {
        let mut known = self.0.borrow_mut();
        if known.len() >= VERDICTS_MAX {
            known.clear();
        }
        known.insert(key, found);
    }
}

/// Findings that a device remembers: prompts and every width of some models.
const VERDICTS_MAX: usize = 64;

/// The first comparison that fails; `None` when all agree.
///
/// # Errors
/// When the device fails.
pub(crate) async fn differing(
    lab: &Lab,
    checked: Checked,
    matrices: &[MatrixCase],
    heads: &[AttentionCase],
    packed_dot: bool,
) -> Result<Option<Verdict>, GpuError> {
    let products = matrices.iter().flat_map(|case| checked.products(*case, packed_dot));
    let attention =
        heads.iter().flat_map(|shape| attention::pairs_of(*shape, &BASES, &checked.forms(shape.1)));
    let (products, attention): (Vec<_>, Vec<_>) = (products.collect(), attention.collect());
    let verdicts = compare(lab, &products, &attention, &mut |_, _| ()).await?;
    Ok(verdicts.into_iter().find(|verdict| verdict.difference.is_some()))
}

impl Checked {
    fn products(self, case: MatrixCase, packed_dot: bool) -> Vec<Pair> {
        match self {
            Self::Prompts { lane, batch_tokens } => {
                let lane_pair = (batch_tokens > 1).then(|| Pair::lane(case, lane, packed_dot));
                let gemm = (batch_tokens > lane).then(|| Pair::gemm(case, packed_dot));
                lane_pair.into_iter().chain(gemm).collect()
            }
            // One token is what it is compared with.
            Self::Tree { nodes: 1, .. } => Vec::new(),
            Self::Tree { nodes, .. } => vec![Pair::lane(case, nodes, packed_dot)],
        }
    }

    fn forms(self, heads_per_kv: u32) -> Vec<Comparands> {
        let plain_queries = Variant::queries_for(1, heads_per_kv);
        let form = |form, queries| Comparands { plain_queries, form, queries };
        match self {
            Self::Prompts { batch_tokens, .. } => {
                let short = form(Form::Tiled, plain_queries);
                let long = (batch_tokens > 1).then(|| form(Form::Tiled, QUERIES_MAX));
                [Some(short), long.filter(|long| *long != short)].into_iter().flatten().collect()
            }
            Self::Tree { nodes, partial_rows } => {
                let whole = Variant::queries_for(nodes.min(partial_rows), heads_per_kv);
                let rest = Variant::queries_for((nodes - 1) % partial_rows + 1, heads_per_kv);
                let tiles = [Some(whole), Some(rest).filter(|rest| *rest != whole)];
                tiles.into_iter().flatten().map(|queries| form(Form::Tree, queries)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use fanlight_messages::TensorType;
    use fanlight_messages::layout::{ResidentFormat, SlabLayout};
    use fanlight_messages::limits::{CHECK_BYTES, CHECK_TOKENS};
    use fanlight_messages::plan::KvFormat;
    use futures::executor::block_on;

    use super::*;
    use crate::device::{AdapterPreference, Device};
    use crate::kernels::{Kernel, matrix};
    use crate::pipelines::Pipelines;

    const PROMPTS: Checked = Checked::Prompts { lane: 8, batch_tokens: 64 };
    const CASES: [MatrixCase; 1] = [(TensorType::Q4_0, 288)];
    const HEADS: [AttentionCase; 1] = [(64, 3, KvFormat::F16)];

    fn device() -> Device {
        block_on(Device::open(AdapterPreference::HighPerformance)).expect("a GPU adapter is required")
    }

    /// Makes a kernel wrong by replacing `right` in its text, and compares.
    fn differing_with(kernel: Kernel, right: &str, wrong: &str, checked: Checked) -> Option<Verdict> {
        let device = device();
        let pipelines = Rc::new(Pipelines::new(&device));
        let mut shader = kernel.shader().unwrap();
        assert!(shader.wgsl.contains(right), "{}", shader.wgsl);
        shader.wgsl = shader.wgsl.replace(right, wrong);
        block_on(pipelines.keep(kernel, shader)).unwrap();
        let lab = Lab::within(&device, pipelines, u64::MAX);
        let packed_dot = device.facts().has_packed_dot;
        block_on(differing(&lab, checked, &CASES, &HEADS, packed_dot)).unwrap()
    }

    fn lane(tokens: u32, packed_dot: bool) -> Kernel {
        let (format, layout) = (ResidentFormat::of(CASES[0].0), SlabLayout::for_columns(CASES[0].1));
        Kernel::Matrix(matrix::Variant::tuned(format, layout, tokens, packed_dot))
    }

    fn attention(form: Form, queries: u32) -> Kernel {
        let (head_len, _, kv_format) = HEADS[0];
        Kernel::Attention(Variant { head_len, kv_format, form, queries })
    }

    /// Sums that differ in the order of their terms only, and an exponential that is off by a rounding.
    #[test]
    fn a_kernel_that_is_wrong_in_the_last_bit_is_found_where_it_is_used_and_nowhere_else() {
        let packed_dot = device().facts().has_packed_dot;
        let backwards =
            ("v = v + partial[o * (SLABS + 1u) + s]", "v = v + partial[o * (SLABS + 1u) + SLABS - s]");
        let tree = |nodes| Checked::Tree { nodes, partial_rows: 32 };
        let found = differing_with(lane(4, packed_dot), backwards.0, backwards.1, tree(4)).unwrap();
        assert!(found.name.contains("lane ×4"), "{}", found.name);
        assert_eq!(differing_with(lane(4, packed_dot), backwards.0, backwards.1, tree(2)), None);
        assert_eq!(differing_with(lane(4, packed_dot), backwards.0, backwards.1, PROMPTS), None);
        let found = differing_with(lane(8, packed_dot), backwards.0, backwards.1, PROMPTS).unwrap();
        assert!(found.name.contains("lane ×8"), "{}", found.name);
    }

    #[test]
    fn attention_that_is_wrong_is_found_in_its_form() {
        let shorter = ("exp2(", "0.9999999 * exp2(");
        let found = differing_with(attention(Form::Tiled, 8), shorter.0, shorter.1, PROMPTS).unwrap();
        assert!(found.name.contains("Tiled ×8"), "{}", found.name);
        let tree = Checked::Tree { nodes: 16, partial_rows: 32 };
        let found = differing_with(attention(Form::Tree, 8), shorter.0, shorter.1, tree).unwrap();
        assert!(found.name.contains("Tree"), "{}", found.name);
    }

    /// The memory that plans set aside does, for the largest heads and for weights that take most.
    #[test]
    fn what_is_compared_fits_the_memory_set_aside() {
        let device = device();
        let packed_dot = device.facts().has_packed_dot;
        for (case, head) in [
            ((TensorType::F32, 2_048), (256, 4, KvFormat::F32)),
            ((TensorType::Q8_0, 512), (128, 32, KvFormat::F16)),
        ] {
            let blocks = u64::from(SlabLayout::for_columns(case.1).padded_blocks());
            let block_bytes = if case.0.is_float() { 128 } else { 40 };
            let bytes = CHECK_BYTES + 2 * u64::from(CHECK_TOKENS) * blocks * block_bytes;
            let lab = Lab::within(&device, Rc::new(Pipelines::new(&device)), bytes);
            let found = block_on(differing(&lab, PROMPTS, &[case], &[head], packed_dot)).unwrap();
            assert_eq!(found, None);
            assert_eq!(lab.bytes_left(), bytes, "everything was given back");
        }
    }
}
