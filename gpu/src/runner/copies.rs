//! The copies that tree steps leave to their successors.

use fanlight_messages::draft::DEPTH_MAX;
use fanlight_messages::plan::BufferOwner;

use super::Runner;
use super::encode::Recorder;
use super::lower::Lowered;
use crate::device::GpuError;

/// Byte offset of the end word in the control buffer.
const END_OFFSET: u64 = 4 * 3;

impl Runner {
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
