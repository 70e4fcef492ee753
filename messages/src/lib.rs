//! Data only: what the rooms of Fanlight say to each other.
//!
//! No I/O and no GPU type lives here, so that every message can be logged, compared and replayed. The one trait
//! is what back ends implement.

pub mod backend;
pub mod bytes;
pub mod control;
pub mod device;
pub mod draft;
pub mod error;
pub mod layout;
pub mod limits;
pub mod plan;
pub mod program;
pub mod protocol;
pub mod records;
pub mod sampling;
pub mod tensor_type;
pub mod wire;

pub use tensor_type::TensorType;
