//! Parameter records: one aligned slice of the params buffer per dispatch, written once when a model is
//! created.

use fanlight_messages::limits::PARAM_RECORD_BYTES;
use fanlight_messages::plan::BufferOwner;

use super::buffers::Buffers;
use super::pipelines::Bound;
use crate::device::{Device, GpuError};

/// Hands out records in order.
#[derive(Debug)]
pub(super) struct ParamWriter {
    next: u64,
    capacity: u64,
}

impl ParamWriter {
    /// Over the whole params buffer.
    pub(super) fn new(buffers: &Buffers) -> Result<Self, GpuError> {
        Ok(Self { next: 0, capacity: buffers.get(BufferOwner::Params)?.size() })
    }

    /// Where the next record will be.
    pub(super) fn peek(&self) -> u64 {
        self.next
    }

    /// Writes a record and gives its offset.
    pub(super) fn write<T: bytemuck::Pod>(
        &mut self,
        device: &Device,
        buffers: &Buffers,
        record: &T,
    ) -> Result<u64, GpuError> {
        let offset = self.next;
        if offset + PARAM_RECORD_BYTES > self.capacity {
            return Err(GpuError::MissingBuffer {
                owner: format!("params record at {offset}, the plan holds {}", self.capacity),
            });
        }
        self.next += PARAM_RECORD_BYTES;
        device.queue().write_buffer(buffers.get(BufferOwner::Params)?, offset, bytemuck::bytes_of(record));
        Ok(offset)
    }
}

/// The binding of a record; every kernel has it at number 8.
pub(super) fn bound(buffers: &Buffers, offset: u64) -> Result<Bound<'_>, GpuError> {
    Ok(Bound::range(8, buffers.get(BufferOwner::Params)?, offset, PARAM_RECORD_BYTES))
}
