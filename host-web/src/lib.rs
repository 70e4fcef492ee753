//! The engine as WebAssembly, for one dedicated worker of the page.
//!
//! The worker's script (`page/worker.ts`) is the only caller. Nothing here waits synchronously, and every
//! failure is a [`error::Failure`].

pub mod engine;
pub mod error;
pub mod panic;
pub mod source;
pub mod wire;
