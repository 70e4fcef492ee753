//! Architectures: from a file's header to a [`ModelSpec`] and on to a `Program`.
//!
//! ```text
//! ModelFile --model_spec--> ModelSpec --program (with the values of small tensors)--> Program
//! ```
//!
//! One file per architecture; this is the only place that chooses between them.

mod decoder;
pub mod error;
mod floats;
mod gemma3;
mod hyper;
pub mod limits;
mod llama;
mod print;
mod program;
mod qwen2;
mod qwen3;
mod rope;
mod summary;
mod tensors;

pub use error::ArchError;
pub use floats::decode_floats;
pub use print::ProgramText;
pub use program::{SmallTensors, program};
pub use summary::{ModelSummary, TypeUse};

use crate::gguf::ModelFile;
use crate::gguf::metadata::required;
use crate::spec::ModelSpec;

/// Every supported value of `general.architecture`.
pub const SUPPORTED: [&str; 4] = [llama::NAME, qwen2::NAME, qwen3::NAME, gemma3::NAME];

/// Reads the architecture of a model and checks all of its tensors against it.
///
/// # Errors
/// Any [`ArchError`]; an architecture that is not in [`SUPPORTED`] is refused by name.
pub fn model_spec(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    let key = "general.architecture";
    let architecture = required(key, model.metadata.get_text(key)?)?;
    match architecture.as_ref() {
        llama::NAME => llama::read(model),
        qwen2::NAME => qwen2::read(model),
        qwen3::NAME => qwen3::read(model),
        gemma3::NAME => gemma3::read(model),
        other => Err(ArchError::UnknownArchitecture {
            architecture: other.to_owned(),
            supported: SUPPORTED.join(", "),
        }),
    }
}
