//! The device: adapter choice, facts, limits, allocation under error scopes, submission and readback.
//!
//! One code path for native and page; what differs hides in `driver`.

mod driver;
mod error;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use futures::channel::oneshot;

use crate::shader::Shader;

pub use driver::Driver;
pub(crate) use error::During;
pub use error::GpuError;
pub use fanlight_messages::device::AdapterFacts;
use fanlight_messages::device::AdapterKind;

/// Which adapter to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AdapterPreference {
    /// The discrete GPU of a laptop with two.
    #[default]
    HighPerformance,
    /// The integrated one.
    LowPower,
}

/// Whether it is a GPU, or a driver that computes on the processor.
fn kind(info: &wgpu::AdapterInfo) -> AdapterKind {
    let name = info.name.to_lowercase();
    let computes_itself = ["llvmpipe", "swiftshader"].iter().any(|software| name.contains(software));
    match info.device_type == wgpu::DeviceType::Cpu || computes_itself {
        true => AdapterKind::SoftwareGpu,
        false => AdapterKind::Gpu,
    }
}

/// An open device and its queue. Clones share it.
#[derive(Clone, Debug)]
pub struct Device {
    raw: wgpu::Device,
    queue: wgpu::Queue,
    driver: Driver,
    facts: Rc<AdapterFacts>,
    preference: AdapterPreference,
    held_bytes: Rc<Cell<u64>>,
    loss: Arc<Mutex<Option<String>>>,
    uncaptured: Arc<Mutex<Option<String>>>,
}

impl Device {
    /// Opens the preferred adapter with its own limits and no optional feature.
    pub async fn open(preference: AdapterPreference) -> Result<Self, GpuError> {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle_from_env();
        descriptor.backends = wgpu::Backends::PRIMARY;
        let instance = wgpu::Instance::new(descriptor);
        let power_preference = match preference {
            AdapterPreference::HighPerformance => wgpu::PowerPreference::HighPerformance,
            AdapterPreference::LowPower => wgpu::PowerPreference::LowPower,
        };
        let adapter = instance
            .request_adapter(&wgpu::RequestAdapterOptions { power_preference, ..Default::default() })
            .await
            .map_err(|error| GpuError::NoAdapter { reason: error.to_string() })?;
        let info = adapter.get_info();
        let limits = adapter.limits();
        let (raw, queue) = adapter
            .request_device(&wgpu::DeviceDescriptor {
                label: Some("fanlight"),
                required_limits: limits.clone(),
                ..Default::default()
            })
            .await
            .map_err(|error| GpuError::NoDevice { adapter: info.name.clone(), reason: error.to_string() })?;
        let packed = wgpu::WgslLanguageFeatures::Packed4x8IntegerDotProduct;
        let facts = AdapterFacts {
            name: if info.name.is_empty() { "WebGPU adapter".into() } else { info.name.clone() },
            backend: format!("{:?}", info.backend).to_lowercase(),
            driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
            kind: kind(&info),
            binding_bytes_max: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size),
            has_packed_dot: instance.wgsl_language_features().contains(packed),
        };
        let driver = Driver::new(&raw)
            .map_err(|error| GpuError::NoDevice { adapter: info.name.clone(), reason: error.to_string() })?;
        let device = Self {
            raw,
            queue,
            driver,
            facts: Rc::new(facts),
            preference,
            held_bytes: Rc::default(),
            loss: Arc::default(),
            uncaptured: Arc::default(),
        };
        device.listen();
        Ok(device)
    }

    fn listen(&self) {
        let loss = self.loss.clone();
        self.raw.set_device_lost_callback(move |reason, message| {
            if let Ok(mut slot) = loss.lock() {
                slot.get_or_insert_with(|| format!("{reason:?}: {message}"));
            }
        });
        let uncaptured = self.uncaptured.clone();
        self.raw.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            tracing::error!(%error, "uncaptured GPU error");
            if let Ok(mut slot) = uncaptured.lock() {
                slot.get_or_insert_with(|| error.to_string());
            }
        }));
    }

    /// What the adapter says of itself.
    pub fn facts(&self) -> &AdapterFacts {
        &self.facts
    }

    /// Which adapter it was asked to be.
    pub fn preference(&self) -> AdapterPreference {
        self.preference
    }

    /// Bytes of all live buffers of this engine.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.get()
    }

    /// An error that reached nobody, or the loss of the device: such an engine must emit no more tokens.
    pub fn health(&self) -> Result<(), GpuError> {
        if let Some(reason) = self.loss.lock().ok().and_then(|slot| slot.clone()) {
            return Err(GpuError::Lost { reason });
        }
        match self.uncaptured.lock().ok().and_then(|slot| slot.clone()) {
            Some(reason) => Err(GpuError::Validation { reason }),
            None => Ok(()),
        }
    }

    /// Destroys the device, as a driver reset would; work in flight ends in [`GpuError::Lost`].
    pub fn destroy(&self) {
        self.raw.destroy();
    }

    /// Creates a buffer; an out-of-memory or validation error becomes a typed error.
    pub async fn create_buffer(
        &self,
        owner: &str,
        bytes: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<Buffer, GpuError> {
        let memory = self.raw.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation = self.raw.push_error_scope(wgpu::ErrorFilter::Validation);
        let raw = self.raw.create_buffer(&wgpu::BufferDescriptor {
            label: Some(owner),
            size: bytes,
            usage,
            mapped_at_creation: false,
        });
        let (validation, memory) = (validation.pop(), memory.pop());
        if let Some(error) = validation.await.or(memory.await) {
            return Err(GpuError::OutOfMemory {
                owner: owner.to_owned(),
                wanted_bytes: bytes,
                held_bytes: self.held_bytes.get(),
                reason: error.to_string(),
            });
        }
        self.held_bytes.set(self.held_bytes.get() + bytes);
        Ok(Buffer { raw, bytes, held_bytes: self.held_bytes.clone() })
    }

    pub(crate) fn raw(&self) -> &wgpu::Device {
        &self.raw
    }

    pub(crate) fn queue(&self) -> &wgpu::Queue {
        &self.queue
    }

    /// A shader module without runtime checks.
    ///
    /// Out-of-bounds guards of the translator would cost every load; the kernels bound their own indices, and
    /// the same text was validated before.
    pub(crate) fn create_module(&self, shader: &Shader) -> wgpu::ShaderModule {
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(&shader.label),
            source: wgpu::ShaderSource::Wgsl(shader.wgsl.as_str().into()),
        };
        // SAFETY: the text comes from our own templates, never from a user or a file, and every variant is
        // validated in tests; kernels guard rows, tokens and blocks against the sizes their buffers were
        // planned with.
        #[allow(unsafe_code, reason = "see SAFETY")]
        unsafe {
            self.raw.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
        }
    }

    /// Submits and makes its completions arrive.
    pub(crate) fn submit(&self, commands: wgpu::CommandBuffer) -> wgpu::SubmissionIndex {
        self.queue.submit([commands])
    }

    /// Resolves when everything submitted up to `index` has finished.
    pub(crate) fn finished(
        &self,
        index: wgpu::SubmissionIndex,
    ) -> impl Future<Output = Result<(), GpuError>> + use<> {
        let (sender, receiver) = oneshot::channel();
        self.queue.on_submitted_work_done(move || {
            let _ = sender.send(());
        });
        self.driver.kick(index);
        let device = self.clone();
        async move {
            let done = receiver.await;
            device.health()?;
            done.map_err(|_| GpuError::Lost { reason: "work was dropped".into() })
        }
    }

    /// Maps `buffer` for reading once `index` has finished. The map is requested now and awaited later.
    pub(crate) fn read(
        &self,
        buffer: &wgpu::Buffer,
        index: wgpu::SubmissionIndex,
    ) -> impl Future<Output = Result<Vec<u32>, GpuError>> + use<> {
        let (sender, receiver) = oneshot::channel();
        buffer.map_async(wgpu::MapMode::Read, .., move |result| {
            let _ = sender.send(result);
        });
        self.driver.kick(index);
        let (device, buffer) = (self.clone(), buffer.clone());
        async move {
            let mapped = receiver.await;
            device.health()?;
            let lost = |reason: String| GpuError::Lost { reason };
            mapped.map_err(|_| lost("the map was dropped".into()))?.map_err(|e| lost(e.to_string()))?;
            let words = {
                let view = buffer.get_mapped_range(..).map_err(|e| lost(e.to_string()))?;
                bytemuck::pod_collect_to_vec(&view)
            };
            buffer.unmap();
            Ok(words)
        }
    }

    /// Copies the first `bytes` of a buffer to the host.
    pub(crate) async fn read_buffer(&self, buffer: &wgpu::Buffer, bytes: u64) -> Result<Vec<u32>, GpuError> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let target = self.create_buffer("readback", bytes, usage).await?;
        let mut encoder =
            self.raw.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("readback") });
        encoder.copy_buffer_to_buffer(buffer, 0, target.raw(), 0, Some(bytes));
        let index = self.submit(encoder.finish());
        self.read(target.raw(), index).await
    }
}

/// A buffer of the engine; its bytes leave the device's count when it is dropped.
#[derive(Debug)]
pub struct Buffer {
    raw: wgpu::Buffer,
    bytes: u64,
    held_bytes: Rc<Cell<u64>>,
}

impl Buffer {
    pub(crate) fn raw(&self) -> &wgpu::Buffer {
        &self.raw
    }
    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.raw.destroy();
        self.held_bytes.set(self.held_bytes.get().saturating_sub(self.bytes));
    }
}
