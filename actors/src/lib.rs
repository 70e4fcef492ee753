//! All concurrency of Fanlight: the actor kit, the actors, and the engine that wires them.

pub mod controller;
pub mod costs;
pub mod engine;
pub mod kit;
pub mod memory;
pub mod pager;
pub mod source;
pub mod submitter;
pub mod telemetry;
