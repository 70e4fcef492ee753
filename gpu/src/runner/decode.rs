//! Windows of decode steps, plain and speculative, and the copies that tree steps leave to their successors.

use std::mem::offset_of;

use fanlight_messages::control::ControlBlock;
use fanlight_messages::device::PassWork;
use fanlight_messages::draft::{DEPTH_MAX, Width};
use fanlight_messages::plan::BufferOwner;

use super::encode::{Recorder, Rows};
use super::lower::{Lowered, Product};
use super::step::Search;
use super::{PendingReport, Runner};
use crate::device::GpuError;
use crate::shader::Form;

/// Byte offset of the end word in the control buffer.
const END_OFFSET: u64 = offset_of!(ControlBlock, end) as u64;

impl Runner {
    /// Submits a window of decode steps; resolves when its control block and tokens have been read back.
    /// Submitted when called, so that the next window can follow before this one is read. The width must have
    /// been prepared. A single step may be split into `parts`.
    pub(super) fn submit_window(
        &mut self,
        steps: u32,
        width: Width,
        parts: u32,
    ) -> Result<PendingReport, GpuError> {
        if steps == 1 && parts > 1 {
            return self.submit_pass(PassWork::Step(width), parts);
        }
        self.check_allowed(width)?;
        let first = self.committed.get();
        let growth = width.tokens_max();
        self.committed.submit(steps * growth);
        // A tree step copies what the one before accepted; plain steps do not.
        let copies = self.is_unflushed && width == Width::Off;
        self.is_unflushed = width != Width::Off;
        self.submit(Some(steps * growth), |runner, recorder| {
            if copies {
                runner.copy_accepted(recorder)?;
            }
            for step in 0..steps {
                let committed = first + step * growth;
                match width {
                    Width::Off => runner.plain_step(recorder, committed)?,
                    Width::Nodes(nodes) => runner.tree_step(recorder, nodes, committed)?,
                }
            }
            Ok(())
        })
    }

    fn plain_step(&self, recorder: &mut Recorder, committed: u32) -> Result<(), GpuError> {
        let batch = self.batch(1, Product::Lane(1), Rows::Plain, committed + 1);
        self.forward(recorder, batch)?;
        recorder.multiply(&self.head, batch.product, batch)?;
        self.step.commit(recorder, Form::Plain, 1)
    }

    /// A step whose root is at most at position `committed`.
    fn tree_step(&self, recorder: &mut Recorder, nodes: u32, committed: u32) -> Result<(), GpuError> {
        let last = committed.min(self.plan.cache_rows - 1);
        self.step.draft(recorder, nodes, Search { first: self.search_first, last })?;
        let deepest = committed + Width::Nodes(nodes).tokens_max();
        let batch = self.batch(nodes, Product::Lane(nodes), Rows::Tree, deepest);
        self.forward(recorder, batch)?;
        recorder.multiply(&self.head_all, batch.product, batch)?;
        self.step.commit(recorder, Form::Tree, nodes)
    }

    /// Copies rows that the last step accepted to the cache, if there may be any: before anything but another
    /// step reads it.
    pub(super) fn flush(&mut self) -> Result<(), GpuError> {
        if !self.is_unflushed {
            return Ok(());
        }
        self.device.health()?;
        // The request is over; the copies run all the same, and nothing else does.
        let control = self.buffers.get(BufferOwner::Control)?;
        self.device.queue().write_buffer(control, END_OFFSET, bytemuck::bytes_of(&1u32));
        let (encoder, ..) = self.record("flush", |runner, recorder| runner.copy_accepted(recorder))?;
        self.device.submit(encoder.finish());
        self.is_unflushed = false;
        Ok(())
    }

    /// The second layer of every tree step's head dispatches.
    pub(super) fn copy_accepted(&self, recorder: &mut Recorder) -> Result<(), GpuError> {
        for op in &self.body {
            if let Lowered::Heads(heads) = op {
                for (groups_x, bind) in &heads.tree {
                    recorder.dispatch(bind.kernel, &bind.group, [*groups_x, DEPTH_MAX, 2])?;
                }
            }
        }
        Ok(())
    }
}
