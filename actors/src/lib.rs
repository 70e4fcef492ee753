//! All concurrency of Fanlight: the actor kit, the actors, and the engine that wires them.

pub mod kit;
