//! The engine as WebAssembly, for one dedicated worker of the page.
//!
//! The worker's script (`sdk/src/worker.ts`) is the only caller. Nothing here waits synchronously, and every
//! failure is a [`error::Failure`].

// Actors run on the event loop here, and on a thread of their own natively: this door exists in the page
// only.
#[cfg(target_arch = "wasm32")]
pub mod engine;
pub mod error;
pub mod panic;
pub mod records;
#[cfg(target_arch = "wasm32")]
mod script;
pub mod source;
pub mod wire;
pub mod wire_model;
