//! One kernel on hand-made buffers: what the self-test and the kernel tests drive.

use std::cell::Cell;
use std::rc::Rc;

use crate::device::{Buffer, Device, GpuError};
use crate::kernels::Kernel;
use crate::pipelines::Pipelines;
use crate::shader::{Declared, Input, Planes, Slice};

/// Runs single kernels.
#[derive(Debug)]
pub struct Lab {
    device: Device,
    pipelines: Rc<Pipelines>,
    /// Most bytes that buffers, and what the queue keeps of their contents, may take at once.
    bytes_max: u64,
    bytes: Rc<Cell<u64>>,
}

/// A buffer of the lab; clones share it.
#[derive(Debug, Clone)]
pub struct LabBuffer(Rc<Lent>);

impl LabBuffer {
    /// All of it, as what a kernel binds.
    pub fn slice<T>(&self) -> Slice<'_, T> {
        Slice::whole(self.0.buffer.raw())
    }
}

/// A buffer, counted while it exists.
#[derive(Debug)]
struct Lent {
    buffer: Buffer,
    bytes: Rc<Cell<u64>>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.bytes.set(self.bytes.get() - self.buffer.bytes());
    }
}

impl Lab {
    /// A lab on a device, with pipelines of its own and as much memory as there is.
    pub fn new(device: &Device) -> Self {
        Self::within(device, Rc::new(Pipelines::new(device)), u64::MAX)
    }

    /// A lab that tries these pipelines and takes `bytes_max` of memory at most.
    pub(crate) fn within(device: &Device, pipelines: Rc<Pipelines>, bytes_max: u64) -> Self {
        Self { device: device.clone(), pipelines, bytes_max, bytes: Rc::default() }
    }

    /// Bytes that are still free.
    pub(crate) fn bytes_left(&self) -> u64 {
        self.bytes_max - self.bytes.get()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A buffer with these words; at least 256 bytes, so that any binding is large enough for its type.
    pub async fn words(&self, words: &[u32]) -> Result<LabBuffer, GpuError> {
        let bytes = 4 * words.len() as u64;
        // The queue keeps what is written until it is there.
        let buffer = self.room(bytes, 2 * bytes).await?;
        self.write(&buffer, words);
        Ok(buffer)
    }

    /// A buffer of at least `bytes`, zeroed, when `wanted_bytes` are free.
    async fn room(&self, bytes: u64, wanted_bytes: u64) -> Result<LabBuffer, GpuError> {
        let bytes = bytes.next_multiple_of(16).max(256);
        self.afford(wanted_bytes.max(bytes))?;
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let buffer = self.device.create_buffer("lab", bytes, usage).await?;
        self.bytes.set(self.bytes.get() + bytes);
        Ok(LabBuffer(Rc::new(Lent { buffer, bytes: self.bytes.clone() })))
    }

    fn afford(&self, wanted_bytes: u64) -> Result<(), GpuError> {
        if wanted_bytes <= self.bytes_left() {
            return Ok(());
        }
        Err(GpuError::OutOfMemory {
            owner: "the comparison of pipelines".into(),
            wanted_bytes,
            held_bytes: self.bytes.get(),
            reason: format!("{} bytes are set aside for it", self.bytes_max),
        })
    }

    /// Writes words at the beginning of a buffer, behind everything that was dispatched before.
    pub fn write(&self, buffer: &LabBuffer, words: &[u32]) {
        self.device.queue().write_buffer(buffer.0.buffer.raw(), 0, bytemuck::cast_slice(words));
    }

    /// A buffer with these floats.
    pub async fn floats(&self, floats: &[f32]) -> Result<LabBuffer, GpuError> {
        self.words(bytemuck::cast_slice(floats)).await
    }

    /// A buffer of zeros.
    pub async fn zeros(&self, words: usize) -> Result<LabBuffer, GpuError> {
        // New buffers are zeroed by every implementation of WebGPU.
        let bytes = 4 * words as u64;
        self.room(bytes, bytes).await
    }

    /// Dispatches a kernel over its bindings and waits for it.
    pub async fn run<'a, V: Declared + Into<Kernel>>(
        &'a self,
        variant: V,
        bindings: &V::Bindings<'a>,
        params: V::Params,
        grid: [u32; 3],
    ) -> Result<(), GpuError> {
        let index = self.start(variant, bindings, params, grid).await?;
        self.device.finished(index).await
    }

    /// The same without waiting for it.
    pub(crate) async fn start<'a, V: Declared + Into<Kernel>>(
        &'a self,
        variant: V,
        bindings: &V::Bindings<'a>,
        params: V::Params,
        grid: [u32; 3],
    ) -> Result<wgpu::SubmissionIndex, GpuError> {
        let kernel = variant.into();
        let (pipeline, interface) = (self.pipelines.get(kernel).await?, self.pipelines.interface(kernel)?);
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let bytes = (size_of::<V::Params>() as u64).next_multiple_of(16);
        let record = self.device.create_buffer("lab params", bytes, usage).await?;
        self.device.queue().write_buffer(record.raw(), 0, bytemuck::bytes_of(&params));
        let scope = self.device.raw().push_error_scope(wgpu::ErrorFilter::Validation);
        let group = interface.bind(&self.device, bindings, Slice::<V::Params>::whole(record.raw()))?;
        let mut encoder =
            self.device.raw().create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("lab") });
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(grid[0], grid[1], grid[2]);
        }
        let index = self.device.submit(encoder.finish());
        if let Some(error) = scope.pop().await {
            return Err(GpuError::Validation { reason: error.to_string() });
        }
        Ok(index)
    }

    /// The first `len` words of a buffer.
    pub async fn read(&self, buffer: &LabBuffer, len: usize) -> Result<Vec<u32>, GpuError> {
        self.afford(4 * len as u64)?;
        self.device.read_buffer(buffer.0.buffer.raw(), 4 * len as u64).await
    }
}

/// Planes of weights in the lab.
#[derive(Debug)]
pub(crate) struct LabPlanes {
    pub(crate) codes: LabBuffer,
    pub(crate) high: Option<LabBuffer>,
    pub(crate) scales: Option<LabBuffer>,
    pub(crate) supers: Option<LabBuffer>,
}

impl LabPlanes {
    /// As kernels bind them.
    pub(crate) fn bindings(&self) -> Planes<'_> {
        Planes {
            codes: self.codes.slice(),
            high: self.high.as_ref().map(LabBuffer::slice),
            scales: self.scales.as_ref().map(LabBuffer::slice),
            supers: self.supers.as_ref().map(LabBuffer::slice),
        }
    }
}

/// Rows of activations in the lab.
#[derive(Debug)]
pub(crate) enum LabInput {
    /// Codes and scales.
    Codes(LabBuffer, LabBuffer),
    /// f32 elements.
    Elements(LabBuffer),
}

impl LabInput {
    /// As kernels bind them.
    pub(crate) fn bindings(&self) -> Input<'_> {
        match self {
            Self::Codes(codes, meta) => Input::Codes(codes.slice(), meta.slice()),
            Self::Elements(elements) => Input::Elements(elements.slice()),
        }
    }
}

/// A small generator (xorshift, Marsaglia 2003) for self-test data: no dependency, the same on every host.
#[derive(Debug, Clone)]
pub struct Noise(u64);

impl Noise {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    /// 32 random bits.
    pub fn bits(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 24) as u32
    }
    /// Uniform in [-1, 1).
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 8) as f32 * (2.0 / 16_777_216.0) - 1.0
    }
    /// `count` uniform values.
    pub fn units(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.unit()).collect()
    }
    /// `count` random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.bits() as u8).collect()
    }
}
