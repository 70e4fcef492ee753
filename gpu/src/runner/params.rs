//! Parameter records: one aligned slice of the params buffer per dispatch, written once when a model is
//! created.

use std::marker::PhantomData;

use fanlight_messages::limits::PARAM_RECORD_BYTES;
use fanlight_messages::plan::BufferOwner;

use super::buffers::Buffers;
use crate::device::{Device, GpuError};
use crate::shader::Record;

/// Where a record is.
#[derive(Debug)]
pub(super) struct Recorded<P> {
    offset: u64,
    holds: PhantomData<P>,
}

impl<P> Clone for Recorded<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Recorded<P> {}

impl<P> Recorded<P> {
    /// Its offset in the params buffer.
    pub(super) fn offset(self) -> u64 {
        self.offset
    }
}

impl<P: Record> Recorded<P> {
    /// Writes it anew, for what is dispatched from now on.
    pub(super) fn write(self, device: &Device, buffers: &Buffers, record: &P) -> Result<(), GpuError> {
        let params = buffers.get(BufferOwner::Params)?;
        device.queue().write_buffer(params, self.offset, bytemuck::bytes_of(record));
        Ok(())
    }
}

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

    /// The next record, to be written later.
    pub(super) fn reserve<P>(&mut self) -> Result<Recorded<P>, GpuError> {
        let offset = self.next;
        self.next += PARAM_RECORD_BYTES;
        if self.next > self.capacity {
            return Err(GpuError::Bug("the plan counts fewer records than the program needs"));
        }
        Ok(Recorded { offset, holds: PhantomData })
    }

    /// Writes the next record.
    pub(super) fn write<P: Record>(
        &mut self,
        device: &Device,
        buffers: &Buffers,
        record: &P,
    ) -> Result<Recorded<P>, GpuError> {
        let recorded = self.reserve()?;
        recorded.write(device, buffers, record)?;
        Ok(recorded)
    }

    /// Every record that the plan counts was handed out.
    pub(super) fn finish(self) -> Result<(), GpuError> {
        match self.next == self.capacity {
            true => Ok(()),
            false => Err(GpuError::Bug("the plan counts more records than the program needs")),
        }
    }
}
