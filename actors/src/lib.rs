//! All concurrency of Fanlight: the actor kit, the actors, and the engine that wires them.

pub mod backend;
pub mod controller;
pub mod costs;
pub mod engine;
pub mod gpu_backend;
pub mod kit;
pub mod measure;
pub mod memory;
pub mod pager;
pub mod source;
pub mod submitter;
pub mod telemetry;
