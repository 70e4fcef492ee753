//! Every buffer of a plan, created under error scopes, found by owner.

use std::collections::BTreeMap;

use fanlight_messages::plan::{BufferOwner, GpuPlan};

use crate::device::{Buffer, Device, GpuError};

/// The buffers of a loaded model.
#[derive(Debug)]
pub struct Buffers(BTreeMap<BufferOwner, Buffer>);

impl Buffers {
    /// Creates all of them; on failure those already created are freed.
    pub async fn create(device: &Device, plan: &GpuPlan) -> Result<Self, GpuError> {
        let mut buffers = BTreeMap::new();
        for buffer in &plan.buffers {
            if buffer.owner == BufferOwner::Staging {
                // The queue keeps this one itself behind its writes; the plan counts it.
                continue;
            }
            let name = format!("{:?}", buffer.owner);
            let created = device.create_buffer(&name, buffer.bytes, usage(buffer.owner)).await?;
            buffers.insert(buffer.owner, created);
        }
        Ok(Self(buffers))
    }

    /// The buffer of an owner.
    pub fn get(&self, owner: BufferOwner) -> Result<&wgpu::Buffer, GpuError> {
        self.0
            .get(&owner)
            .map(Buffer::raw)
            .ok_or_else(|| GpuError::MissingBuffer { owner: format!("{owner:?}") })
    }
}

fn usage(owner: BufferOwner) -> wgpu::BufferUsages {
    use wgpu::BufferUsages as U;
    match owner {
        BufferOwner::Params => U::UNIFORM | U::COPY_DST,
        BufferOwner::Readback(_) => U::MAP_READ | U::COPY_DST,
        // Kernels with many buffers read it as a uniform.
        BufferOwner::Ancestors => U::STORAGE | U::UNIFORM | U::COPY_DST | U::COPY_SRC,
        _ => U::STORAGE | U::COPY_DST | U::COPY_SRC,
    }
}
