//! What kernel variants bind, and their pipelines, compiled once each when they are first wanted.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::device::{Device, GpuError};
use crate::kernels::Kernel;
use crate::shader::{Access, Bind, Binding, RawSlice, Shader, Slice};

/// What a kernel binds. Buffers can be bound long before the kernel is compiled.
#[derive(Debug)]
pub struct Interface {
    raw: wgpu::BindGroupLayout,
    bindings: Vec<Binding>,
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
        let entries: Vec<_> = shader.bindings.iter().map(layout_entry).collect();
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
        let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
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
        match scope.pop().await {
            Some(error) => Err(GpuError::Kernel { kernel: shader.label, reason: error.to_string() }),
            None => Ok(pipeline),
        }
    }
}

fn render(kernel: Kernel) -> Result<Shader, GpuError> {
    kernel
        .shader()
        .map_err(|error| GpuError::Kernel { kernel: format!("{kernel:?}"), reason: error.to_string() })
}

fn layout_entry(binding: &Binding) -> wgpu::BindGroupLayoutEntry {
    let ty = match binding.access {
        Access::Read => wgpu::BufferBindingType::Storage { read_only: true },
        Access::Write => wgpu::BufferBindingType::Storage { read_only: false },
        Access::Uniform => wgpu::BufferBindingType::Uniform,
    };
    wgpu::BindGroupLayoutEntry {
        binding: binding.number,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
        count: None,
    }
}

impl Interface {
    /// A bind group of what a kernel binds and the record that it reads: its shader's variables, each one
    /// and no other.
    pub(crate) fn bind<'b, P>(
        &self,
        device: &Device,
        bindings: &impl Bind<'b>,
        params: Slice<'_, P>,
    ) -> Result<wgpu::BindGroup, GpuError> {
        let mut slices: Vec<(&str, RawSlice<'b>)> = Vec::new();
        bindings.bind("", &mut slices);
        // Both live until the bind group is made.
        let mut slices: Vec<(&str, RawSlice<'_>)> = slices;
        slices.push(("params", params.raw()));
        let declared = |name: &str| self.bindings.iter().find(|binding| binding.name == name);
        let numbered: Vec<_> =
            slices.iter().filter_map(|(name, slice)| Some((declared(name)?.number, *slice))).collect();
        if numbered.len() != slices.len() || numbered.len() != self.bindings.len() {
            return Err(GpuError::Bug("a kernel's bindings are not the variables of its shader"));
        }
        let entries: Vec<_> = numbered
            .into_iter()
            .map(|(binding, RawSlice { buffer, offset, bytes })| wgpu::BindGroupEntry {
                binding,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer,
                    offset,
                    size: bytes.and_then(wgpu::BufferSize::new),
                }),
            })
            .collect();
        Ok(device.raw().create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &self.raw,
            entries: &entries,
        }))
    }
}
