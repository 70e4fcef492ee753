//! Records the lowered program for a batch into a compute pass.

use std::collections::HashMap;
use std::rc::Rc;

use fanlight_messages::draft::DEPTH_MAX;
use fanlight_messages::plan::CHUNK_LEN;

use super::lower::{Attend, AttendTile, Lowered, MultiplyPage, Product};
use crate::device::GpuError;
use crate::kernels::{Kernel, attention};

/// What the rows of a batch are to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// Prompt tokens, one after the other; they fold their chunks themselves.
    Prompt,
    /// A single token.
    Plain,
    /// Nodes of a draft tree.
    Tree,
}

/// A batch: how many rows, where they sit, which form of attention serves them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batch {
    /// Live rows; for decode a bucket.
    pub(super) tokens: u32,
    pub(super) product: Product,
    pub(super) rows: Rows,
    /// Positions that may be seen, an upper bound that the host knows.
    pub(super) positions_max: u32,
    pub(super) kv_format: fanlight_messages::plan::KvFormat,
    pub(super) packed_dot: bool,
    pub(super) partial_rows: u32,
}

/// A pass being recorded, with its pipelines resolved beforehand.
pub(super) struct Recorder<'a> {
    pub(super) pass: wgpu::ComputePass<'a>,
    pub(super) pipelines: &'a HashMap<Kernel, Rc<wgpu::ComputePipeline>>,
    pub(super) dispatches: u32,
}

impl Recorder<'_> {
    pub(super) fn dispatch(
        &mut self,
        kernel: Kernel,
        group: &wgpu::BindGroup,
        grid: [u32; 3],
    ) -> Result<(), GpuError> {
        let pipeline = self.pipelines.get(&kernel).ok_or_else(|| GpuError::Kernel {
            kernel: format!("{kernel:?}"),
            reason: "used before it was compiled".into(),
        })?;
        self.pass.set_pipeline(pipeline);
        self.pass.set_bind_group(0, group, &[]);
        self.pass.dispatch_workgroups(grid[0], grid[1], grid[2]);
        self.dispatches += 1;
        Ok(())
    }

    pub(super) fn op(&mut self, op: &Lowered, batch: Batch) -> Result<(), GpuError> {
        let mut failed = Ok(());
        visit(op, batch, &mut |kernel, group, grid| {
            if failed.is_ok() {
                failed = self.dispatch(kernel, group, grid);
            }
        });
        failed
    }

    pub(super) fn multiply(
        &mut self,
        pages: &[MultiplyPage],
        product: Product,
        batch: Batch,
    ) -> Result<(), GpuError> {
        for page in pages {
            let (kernel, grid) = product.kernel(page, batch.tokens, batch.packed_dot);
            self.dispatch(kernel, &page.group, grid)?;
        }
        Ok(())
    }
}

/// Calls `dispatch` with everything an op needs for a batch: recording and compiling walk the same list.
pub(super) fn visit(
    op: &Lowered,
    batch: Batch,
    dispatch: &mut dyn FnMut(Kernel, &wgpu::BindGroup, [u32; 3]),
) {
    match op {
        Lowered::Embed(binds) => {
            for bind in binds {
                dispatch(bind.kernel, &bind.group, [batch.tokens, 1, 1]);
            }
        }
        Lowered::Normalize(bind) => dispatch(bind.kernel, &bind.group, [batch.tokens, 1, 1]),
        Lowered::Multiply(pages) => {
            for page in pages {
                let (kernel, grid) = batch.product.kernel(page, batch.tokens, batch.packed_dot);
                dispatch(kernel, &page.group, grid);
            }
        }
        Lowered::Heads(heads) if batch.rows == Rows::Tree => {
            for (groups_x, bind) in &heads.tree {
                // A second layer of workgroups copies what the last step accepted.
                dispatch(bind.kernel, &bind.group, [*groups_x, batch.tokens.max(DEPTH_MAX), 2]);
            }
        }
        Lowered::Heads(heads) => {
            for (groups_x, bind) in &heads.chain {
                dispatch(bind.kernel, &bind.group, [*groups_x, batch.tokens, 1]);
            }
        }
        Lowered::Attend(attend) => visit_attend(attend, batch, dispatch),
        Lowered::Activate(variant, bind) => {
            dispatch(bind.kernel, &bind.group, variant.groups(batch.tokens));
        }
    }
}

fn visit_attend(attend: &Attend, batch: Batch, dispatch: &mut dyn FnMut(Kernel, &wgpu::BindGroup, [u32; 3])) {
    let mut one = |tile: &AttendTile, form, tokens: u32| {
        // Prompts of every length share two pipelines: all are compiled when the model is loaded.
        let queries = match form {
            attention::Form::Tiled if tokens > 1 => attention::QUERIES_MAX,
            _ => attention::Variant::queries_for(tokens, attend.heads_per_kv),
        };
        let variant =
            attention::Variant { head_len: attend.head_len, kv_format: batch.kv_format, form, queries };
        let chunks = batch.positions_max.div_ceil(CHUNK_LEN).max(1);
        for (kv_heads, group) in &tile.groups {
            let grid = variant.groups(*kv_heads, chunks, tokens * attend.heads_per_kv);
            dispatch(Kernel::Attention(variant), group, grid);
        }
        if let Kernel::Fold(fold) = tile.fold.kernel {
            dispatch(tile.fold.kernel, &tile.fold.group, fold.groups(tokens));
        }
    };
    match batch.rows {
        Rows::Prompt => one(&attend.prompt, attention::Form::Tiled, batch.tokens),
        Rows::Plain => one(&attend.plain, attention::Form::Split, 1),
        Rows::Tree => {
            let mut left = batch.tokens;
            for tile in &attend.tree {
                if left == 0 {
                    break;
                }
                let tokens = left.min(batch.partial_rows);
                one(tile, attention::Form::Tree, tokens);
                left -= tokens;
            }
        }
    }
}
