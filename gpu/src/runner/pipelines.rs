//! What kernel variants bind, and their pipelines, compiled once each when they are first wanted.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::device::{Device, GpuError, Raised, Scopes};
use crate::kernels::{Binding, Kernel, Shader};

/// What a kernel binds. Buffers can be bound long before the kernel is compiled.
#[derive(Debug)]
pub struct Interface {
    raw: wgpu::BindGroupLayout,
    pub(crate) bindings: Vec<Binding>,
}

/// Compiles kernels on demand and keeps them.
#[derive(Debug)]
pub struct Pipelines {
    device: Device,
    interfaces: RefCell<HashMap<Kernel, Rc<Interface>>>,
    compiled: RefCell<HashMap<Kernel, Rc<wgpu::ComputePipeline>>>,
}

impl Pipelines {
    /// An empty set.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), interfaces: RefCell::default(), compiled: RefCell::default() }
    }

    /// Kernels compiled so far.
    pub fn count(&self) -> usize {
        self.compiled.borrow().len()
    }

    /// What a kernel binds.
    pub fn interface(&self, kernel: Kernel) -> Result<Rc<Interface>, GpuError> {
        if let Some(interface) = self.interfaces.borrow().get(&kernel) {
            return Ok(interface.clone());
        }
        let shader = render(kernel)?;
        let entries: Vec<_> = shader.bindings.iter().map(|b| layout_entry(*b)).collect();
        let raw = self.device.raw().create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some(&shader.label),
            entries: &entries,
        });
        let interface = Rc::new(Interface { raw, bindings: shader.bindings });
        self.interfaces.borrow_mut().insert(kernel, interface.clone());
        Ok(interface)
    }

    /// The pipeline of a kernel, compiled now when it is new.
    pub async fn get(&self, kernel: Kernel) -> Result<Rc<wgpu::ComputePipeline>, GpuError> {
        if let Some(pipeline) = self.compiled.borrow().get(&kernel) {
            return Ok(pipeline.clone());
        }
        self.keep(kernel, render(kernel)?).await
    }

    /// Compiles a shader and keeps it as the pipeline of a kernel, whose bindings it has.
    pub(crate) async fn keep(
        &self,
        kernel: Kernel,
        shader: Shader,
    ) -> Result<Rc<wgpu::ComputePipeline>, GpuError> {
        let interface = self.interface(kernel)?;
        let pipeline = Rc::new(self.compile(shader, &interface).await?);
        self.compiled.borrow_mut().insert(kernel, pipeline.clone());
        Ok(pipeline)
    }

    async fn compile(
        &self,
        shader: Shader,
        interface: &Interface,
    ) -> Result<wgpu::ComputePipeline, GpuError> {
        let device = self.device.raw();
        let scopes = Scopes::push(device);
        let module = self.device.create_module(&shader);
        let layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some(&shader.label),
            bind_group_layouts: &[Some(&interface.raw)],
            immediate_size: 0,
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(&shader.label),
            layout: Some(&layout),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &shader.constants,
                // Every kernel writes its workgroup memory before it reads it.
                zero_initialize_workgroup_memory: false,
            },
            cache: None,
        });
        match scopes.pop().await {
            Some(Raised::OutOfMemory(reason) | Raised::Refused(reason)) => {
                Err(GpuError::Kernel { kernel: shader.label, reason })
            }
            None => Ok(pipeline),
        }
    }
}

fn render(kernel: Kernel) -> Result<Shader, GpuError> {
    kernel
        .shader()
        .map_err(|error| GpuError::Kernel { kernel: format!("{kernel:?}"), reason: error.to_string() })
}

fn layout_entry(binding: Binding) -> wgpu::BindGroupLayoutEntry {
    let ty = match binding {
        Binding::Read(_) => wgpu::BufferBindingType::Storage { read_only: true },
        Binding::Write(_) => wgpu::BufferBindingType::Storage { read_only: false },
        Binding::Uniform(_) => wgpu::BufferBindingType::Uniform,
    };
    wgpu::BindGroupLayoutEntry {
        binding: binding.number(),
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
        count: None,
    }
}

/// A buffer range bound to a number.
#[derive(Debug, Clone, Copy)]
pub struct Bound<'a> {
    pub(crate) number: u32,
    pub(crate) buffer: &'a wgpu::Buffer,
    pub(crate) offset: u64,
    pub(crate) bytes: Option<u64>,
}

impl<'a> Bound<'a> {
    /// A whole buffer.
    pub(crate) fn whole(number: u32, buffer: &'a wgpu::Buffer) -> Self {
        Self { number, buffer, offset: 0, bytes: None }
    }
    /// A part of one.
    pub(crate) fn range(number: u32, buffer: &'a wgpu::Buffer, offset: u64, bytes: u64) -> Self {
        Self { number, buffer, offset, bytes: Some(bytes) }
    }
}

impl Interface {
    /// A bind group of the bindings this kernel declares; others in `bound` are ignored, a missing one is an
    /// error of validation that the caller's error scope reports.
    pub(crate) fn bind(&self, device: &Device, bound: &[Bound]) -> wgpu::BindGroup {
        let entries: Vec<_> = bound
            .iter()
            .filter(|b| self.bindings.iter().any(|d| d.number() == b.number))
            .map(|b| wgpu::BindGroupEntry {
                binding: b.number,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: b.buffer,
                    offset: b.offset,
                    size: b.bytes.and_then(wgpu::BufferSize::new),
                }),
            })
            .collect();
        device.raw().create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &self.raw,
            entries: &entries,
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::device::AdapterPreference;

    /// What a driver refuses is told by the compile, and not to a later command that has nothing to do with
    /// it.
    #[test]
    fn e24_a_pipeline_that_is_refused_leaves_the_device_healthy() {
        let device = block_on(Device::open(AdapterPreference::HighPerformance)).expect("a GPU adapter");
        let pipelines = Pipelines::new(&device);
        let mut shader = render(Kernel::Choose).unwrap();
        shader.wgsl = shader.wgsl.replace("fn main(", "fn other(");
        let refused = block_on(pipelines.keep(Kernel::Choose, shader));
        assert!(matches!(refused, Err(GpuError::Kernel { .. })), "{refused:?}");
        assert_eq!((device.health(), pipelines.count()), (Ok(()), 0));
        block_on(pipelines.get(Kernel::Choose)).expect("the right text compiles");
    }
}
