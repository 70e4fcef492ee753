//! Pipelines of kernel variants, compiled once each.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::device::{Device, GpuError};
use crate::kernels::{Binding, Kernel, Shader};

/// A compiled kernel and its bind group layout.
#[derive(Debug)]
pub struct Pipeline {
    pub(crate) raw: wgpu::ComputePipeline,
    pub(crate) layout: wgpu::BindGroupLayout,
    pub(crate) bindings: Vec<Binding>,
}

/// Compiles kernels on demand and keeps them.
#[derive(Debug)]
pub struct Pipelines {
    device: Device,
    compiled: RefCell<HashMap<Kernel, Rc<Pipeline>>>,
}

impl Pipelines {
    /// An empty set.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), compiled: RefCell::default() }
    }

    /// Kernels compiled so far.
    pub fn count(&self) -> usize {
        self.compiled.borrow().len()
    }

    /// The pipeline of a kernel, compiled now when it is new.
    pub async fn get(&self, kernel: Kernel) -> Result<Rc<Pipeline>, GpuError> {
        if let Some(pipeline) = self.compiled.borrow().get(&kernel) {
            return Ok(pipeline.clone());
        }
        let shader = kernel
            .shader()
            .map_err(|error| GpuError::Kernel { kernel: format!("{kernel:?}"), reason: error.to_string() })?;
        self.keep(kernel, shader).await
    }

    /// Compiles a shader and keeps it as the pipeline of a kernel.
    pub(crate) async fn keep(&self, kernel: Kernel, shader: Shader) -> Result<Rc<Pipeline>, GpuError> {
        let pipeline = Rc::new(self.compile(shader).await?);
        self.compiled.borrow_mut().insert(kernel, pipeline.clone());
        Ok(pipeline)
    }

    async fn compile(&self, shader: Shader) -> Result<Pipeline, GpuError> {
        let device = self.device.raw();
        let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let module = self.device.create_module(&shader);
        let entries: Vec<_> = shader.bindings.iter().map(|b| layout_entry(*b)).collect();
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some(&shader.label),
            entries: &entries,
        });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some(&shader.label),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let raw = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(&shader.label),
            layout: Some(&pipeline_layout),
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
            None => Ok(Pipeline { raw, layout, bindings: shader.bindings }),
        }
    }
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

impl Pipeline {
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
            layout: &self.layout,
            entries: &entries,
        })
    }
}
