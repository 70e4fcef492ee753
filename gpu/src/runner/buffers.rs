//! Every buffer of a plan, created under error scopes, found by owner.

use std::collections::BTreeMap;

use fanlight_messages::layout::{PagePlanes, PlaneRange, ResidentFormat};
use fanlight_messages::limits::PARAM_RECORD_BYTES;
use fanlight_messages::plan::{ActivationPlane, BufferOwner, GpuPlan, PageRange};
use fanlight_messages::program::{ActivationId, MatrixSpec, RopeId, ValueId};

use super::params::Recorded;
use crate::device::{Buffer, Device, GpuError};
use crate::shader::{self, Planes, Slice};

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
        self.0.get(&owner).map(Buffer::raw).ok_or(GpuError::MissingBuffer { owner })
    }

    /// What a kernel binds: of what is told apart by an id, or of the only one (`()`).
    pub fn of<T: Owned>(&self, id: T::Id) -> Result<Slice<'_, T>, GpuError> {
        self.get(T::owner(id)).map(Slice::whole)
    }

    /// The planes of rows of a matrix in a buffer.
    pub fn planes(&self, spec: &MatrixSpec, place: PagePlace) -> Result<Planes<'_>, GpuError> {
        let buffer = self.get(place.owner)?;
        let planes = PagePlanes::new(ResidentFormat::of(spec.tensor_type), place.rows, spec.columns);
        let slice = |plane: PlaneRange| Slice::range(buffer, plane.offset_bytes, plane.len_bytes);
        let some = |plane: PlaneRange| (plane.len_bytes > 0).then(|| slice(plane));
        Ok(Planes {
            codes: slice(planes.codes),
            high: some(planes.high),
            scales: some(planes.scales),
            supers: some(planes.supers),
        })
    }

    /// The record at an offset of the parameters.
    pub fn record<P>(&self, record: Recorded<P>) -> Result<Slice<'_, P>, GpuError> {
        Ok(Slice::range(self.get(BufferOwner::Params)?, record.offset(), PARAM_RECORD_BYTES))
    }
}

/// What a buffer of the plan holds.
pub trait Owned {
    /// What tells apart those that hold the same.
    type Id;

    /// Its buffer's owner.
    fn owner(id: Self::Id) -> BufferOwner;
}

macro_rules! owned {
    ($($content:ident($id:tt: $type:ty) => $owner:expr),* $(,)?) => {$(
        impl Owned for shader::$content {
            type Id = $type;

            fn owner($id: $type) -> BufferOwner {
                $owner
            }
        }
    )*};
}
owned! {
    Rows(id: ValueId) => BufferOwner::Value(id),
    Codes(id: ActivationId) => BufferOwner::Activation(id, ActivationPlane::Codes),
    Meta(id: ActivationId) => BufferOwner::Activation(id, ActivationPlane::Meta),
    Elements(id: ActivationId) => BufferOwner::Activation(id, ActivationPlane::Values),
    Vectors(_: ()) => BufferOwner::Vectors,
    Rope(id: RopeId) => BufferOwner::Rope(id),
    Keys(at: HeadGroup) => BufferOwner::Keys { layer: at.layer, group: at.group },
    Values(at: HeadGroup) => BufferOwner::Values { layer: at.layer, group: at.group },
    Partials(_: ()) => BufferOwner::AttentionPartials,
    Tokens(_: ()) => BufferOwner::Tokens,
    Control(_: ()) => BufferOwner::Control,
    Choices(_: ()) => BufferOwner::ChoicePartials,
    Sampling(_: ()) => BufferOwner::Sampling,
    Selection(_: ()) => BufferOwner::Selection,
    History(_: ()) => BufferOwner::History,
    Matches(_: ()) => BufferOwner::Matches,
    Draft(_: ()) => BufferOwner::Draft,
    Ancestors(_: ()) => BufferOwner::Ancestors,
    Faults(_: ()) => BufferOwner::Faults,
    Landing(_: ()) => BufferOwner::Landing,
}

/// Which part of the cache.
#[derive(Debug, Clone, Copy)]
pub struct HeadGroup {
    /// Layer.
    pub layer: u32,
    /// Group of its KV heads.
    pub group: u32,
}

/// Rows of a matrix in a buffer.
#[derive(Debug, Clone, Copy)]
pub struct PagePlace {
    /// The buffer.
    pub owner: BufferOwner,
    /// First row of the matrix.
    pub first_row: u64,
    /// How many.
    pub rows: u64,
}

impl From<&PageRange> for PagePlace {
    fn from(page: &PageRange) -> Self {
        Self { owner: page.owner(), first_row: page.first_row, rows: page.rows }
    }
}

fn usage(owner: BufferOwner) -> wgpu::BufferUsages {
    use wgpu::BufferUsages as U;
    match owner {
        BufferOwner::Params => U::UNIFORM | U::COPY_DST,
        BufferOwner::Readback(_) => U::MAP_READ | U::COPY_DST,
        _ => U::STORAGE | U::COPY_DST | U::COPY_SRC,
    }
}
