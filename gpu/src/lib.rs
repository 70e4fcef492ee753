//! The device and the kernels: a `Program` becomes command buffers on WebGPU, natively and in the page.

mod backend;
pub mod device;
pub mod kernels;
pub mod lab;
mod pipelines;
pub mod runner;
pub mod selftest;
pub mod shader;

pub use backend::GpuBackend;
pub use device::{AdapterFacts, AdapterPreference, Device, GpuError};
pub use runner::Runner;
