//! The processor back end: places a program's weights in memory, interprets its ops over the kernels of
//! `compute`, and decodes in windows as a GPU does. What it computes is a function of the file, the prompt,
//! the options and the cache format: not of threads, instruction set, batch, width, native or page.

mod backend;
mod driver;
mod machine;

pub use backend::{CpuBackend, CpuModel};
pub use driver::threads_default;
pub use fanlight_compute::Level;
