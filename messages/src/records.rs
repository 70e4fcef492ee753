//! How many parameter records a program's dispatches read: the pager sizes their buffer by it, and the GPU
//! writes exactly as many.

use crate::draft::WIDTHS;
use crate::limits::PARAM_RECORD_BYTES;
use crate::plan::{BUCKET_MAX, PageRange};
use crate::program::{MatrixId, Op, Program};
use crate::sampling::SELECTION_PASSES_MAX;

/// What a step was, of which some kernels have a record each: a prompt's end, a token, a tree.
const FORMS: u64 = 3;

/// How a plan cuts what ops read and write.
#[derive(Debug, Clone, Copy)]
pub struct Cuts<'a> {
    /// Pages of matrices.
    pub pages: &'a [PageRange],
    /// KV heads of a group, by layer.
    pub kv_group_heads: &'a [u32],
    /// Rows that one dispatch of attention leaves partial results of.
    pub partial_rows: u32,
}

impl Cuts<'_> {
    fn pages_of(&self, matrix: MatrixId) -> u64 {
        self.pages.iter().filter(|page| page.matrix == matrix).count() as u64
    }

    fn groups_of(&self, program: &Program, layer: u32) -> u64 {
        let shape = program.layers.get(layer as usize);
        let heads = self.kv_group_heads.get(layer as usize);
        shape.zip(heads).map_or(1, |(shape, heads)| u64::from(shape.kv_heads / heads))
    }

    /// Records of one op.
    fn of_op(&self, program: &Program, op: &Op) -> u64 {
        match op {
            // Gathered rows are one page.
            Op::Embed { table, .. } => self.pages_of(*table).max(1),
            Op::Multiply { matrix, .. } => self.pages_of(*matrix),
            Op::Heads { layer, .. } => self.groups_of(program, *layer),
            Op::Attend { layer, .. } => {
                // Plain, prompts, and the tiles of a tree; each has a record per head group and one to fold.
                let tiles = 2 + u64::from(BUCKET_MAX / self.partial_rows);
                tiles * (self.groups_of(program, *layer) + 1)
            }
            Op::Normalize { .. } | Op::Activate { .. } => 1,
        }
    }
}

/// Records around the forward pass, kernel by kernel.
fn of_steps(program: &Program) -> u64 {
    let logits = u64::from(program.logits_scale != 1.0 || program.logits_soft_cap.is_some());
    let (choose, adjust, sample, accept) = (1, FORMS, FORMS, FORMS);
    let weigh = u64::from(SELECTION_PASSES_MAX);
    // The scan and the draft of a width share theirs.
    let drafts = WIDTHS.len() as u64;
    logits + choose + adjust + weigh + sample + accept + drafts
}

/// Bytes of all records of a program.
pub fn record_bytes(program: &Program, cuts: Cuts<'_>) -> u64 {
    // The head has one for the last row and one for all rows.
    let ops = program.body.iter().chain([&program.head, &program.head]);
    let forward: u64 = ops.map(|op| cuts.of_op(program, op)).sum();
    let repack = 1;
    (forward + of_steps(program) + repack) * PARAM_RECORD_BYTES
}
