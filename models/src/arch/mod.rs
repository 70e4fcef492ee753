//! Architectures: from a file's header to a [`ModelSpec`] and on to a `Program`.
//!
//! ```text
//! ModelFile --model_spec--> ModelSpec --program (with the values of small tensors)--> Program
//! ```
//!
//! One file per architecture; this is the only place that chooses between them.

mod decoder;
mod ernie4_5;
pub mod error;
mod exaone4;
mod floats;
mod gemma;
mod gemma2;
mod gemma3;
mod granite;
mod hyper;
pub mod limits;
mod llama;
mod mistral3;
mod olmo2;
mod phi3;
mod print;
mod program;
mod qwen2;
mod qwen3;
mod rope;
mod smollm3;
mod summary;
mod tensors;
mod windows;

pub use error::ArchError;
pub use floats::decode_floats;
pub use print::ProgramText;
pub use program::{SmallTensors, program};
pub use summary::{ModelSummary, TypeUse};

use crate::gguf::ModelFile;
use crate::gguf::metadata::required;
use crate::spec::ModelSpec;

/// Every supported value of `general.architecture`.
pub const SUPPORTED: [&str; 15] = [
    llama::NAME,
    qwen2::NAME,
    qwen3::NAME,
    gemma3::NAME,
    qwen2::NAME_VISION,
    qwen3::NAME_VISION,
    gemma::NAME,
    gemma2::NAME,
    phi3::NAME,
    smollm3::NAME,
    mistral3::NAME,
    granite::NAME,
    ernie4_5::NAME,
    olmo2::NAME,
    exaone4::NAME,
];

/// Reads the architecture of a model and checks all of its tensors against it.
///
/// # Errors
/// Any [`ArchError`]; an architecture that is not in [`SUPPORTED`] is refused by name.
pub fn model_spec(model: &ModelFile) -> Result<ModelSpec, ArchError> {
    refuse_companion(model)?;
    let key = "general.architecture";
    let architecture = required(key, model.metadata.get_text(key)?)?;
    match architecture.as_ref() {
        llama::NAME => llama::read(model),
        qwen2::NAME => qwen2::read(model, qwen2::NAME),
        qwen2::NAME_VISION => qwen2::read(model, qwen2::NAME_VISION),
        qwen3::NAME => qwen3::read(model, qwen3::NAME),
        qwen3::NAME_VISION => qwen3::read(model, qwen3::NAME_VISION),
        gemma::NAME => gemma::read(model),
        gemma2::NAME => gemma2::read(model),
        gemma3::NAME => gemma3::read(model),
        phi3::NAME => phi3::read(model),
        smollm3::NAME => smollm3::read(model),
        mistral3::NAME => mistral3::read(model),
        granite::NAME => granite::read(model),
        ernie4_5::NAME => ernie4_5::read(model),
        olmo2::NAME => olmo2::read(model),
        exaone4::NAME => exaone4::read(model),
        other => Err(ArchError::UnknownArchitecture {
            architecture: other.to_owned(),
            supported: SUPPORTED.join(", "),
        }),
    }
}

/// Refuses files that go with a model by what they are.
fn refuse_companion(model: &ModelFile) -> Result<(), ArchError> {
    let text = |key| model.metadata.get_text(key);
    let (kind, architecture) = (text("general.type")?, text("general.architecture")?);
    let is_known = architecture.as_deref().is_some_and(|name| SUPPORTED.contains(&name));
    let what = match (kind.as_deref(), architecture.as_deref()) {
        (Some("adapter"), _) => "an adapter (LoRA), which only changes a model",
        (Some("imatrix"), _) => "an importance matrix, which only quantisers read",
        (Some("mmproj"), _) | (_, Some("clip")) => {
            "a projector, which only brings images or sound to a model"
        }
        (Some("vocab"), _) => "a vocabulary without weights",
        _ if is_known && model.tensors().is_empty() => "a vocabulary without weights",
        _ => return Ok(()),
    };
    Err(ArchError::NotAModel { what })
}
