//! What the tests share: a GGUF writer and reader, block encoders and decoders, a plain f64 reference of the
//! supported architectures, synthetic models, and the workload of page-grounded prompts.
//!
//! But for [`rig`], which drives the product, nothing here uses the product's own parsing, kernels or
//! architecture code, so that a test which compares the two compares two independent answers. Only the list
//! of tensor types and their sizes is shared.

pub mod blocks;
pub mod gguf;
pub mod goldens;
pub mod reference;
pub mod rig;
pub mod synth;
pub mod workload;
