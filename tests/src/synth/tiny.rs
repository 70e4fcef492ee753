//! Tiny models whose every weight is drawn as a float and then encoded.

use super::metadata::metadata;
use super::random::Random;
use super::shape::{Architecture, RopeRule, Shape};
use super::tensors::{Slot, Spread, WeightTypes, tensors};
use super::vocabulary::{Vocabulary, VocabularyKind};
use crate::blocks::{BlockError, encode_row};
use crate::gguf::{GgufFile, WriteError};
use fanlight_messages::TensorType;

/// A tiny model to be written: change any field before [`TinyModel::build`].
#[derive(Debug, Clone, PartialEq)]
pub struct TinyModel {
    /// Its shape.
    pub shape: Shape,
    /// Types of its matrices.
    pub types: WeightTypes,
    /// Of its weights.
    pub seed: u64,
}

/// Why a tiny model could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    /// Shape and types do not go together, or writing failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A row could not be encoded.
    #[error(transparent)]
    Block(#[from] BlockError),
}

/// A tiny model of an architecture, every matrix in one type. Width 64 and 16 elements per head for blocks of
/// 32, width 256 and 64 per head for blocks of 256; grouped heads, three layers or as many as it takes to
/// have one of each kind (six for gemma3, whose sixth layer is the first without a window), llama and olmo2
/// untied and the others tied.
pub fn tiny(architecture: Architecture, tensor_type: TensorType, seed: u64) -> TinyModel {
    let scale = if tensor_type.block_len() > 32 { 4 } else { 1 };
    use Architecture::{Gemma2, Gemma3, Llama, Mistral3, Olmo2, Phi3, Qwen3, Qwen3Vl, SmolLm3};
    let is_gemma3 = architecture == Gemma3;
    // Heads wider than width / heads, as these have.
    let has_wide_heads = architecture.is_gemma() || matches!(architecture, Qwen3 | Qwen3Vl | Mistral3);
    let head_scale = if has_wide_heads { 2 } else { 1 };
    let head_len = 16 * scale * head_scale;
    let shape = Shape {
        architecture,
        layers: match architecture {
            Gemma3 => 6,
            Olmo2 | SmolLm3 => 4,
            _ => 3,
        },
        width: 64 * scale,
        ffn_len: if scale == 1 { 160 } else { 512 },
        query_heads: 4,
        kv_heads: if is_gemma3 { 1 } else { 2 },
        head_len,
        rotated_len: (architecture == Phi3).then_some(head_len / 4 * 3),
        context_len: 4096,
        rope_base: 10_000.0,
        rope_rule: match architecture {
            Mistral3 => RopeRule::Yarn { factor: 4.0, original_context: 16 },
            Olmo2 => RopeRule::Yarn { factor: 4.0, original_context: 64 },
            Phi3 => RopeRule::Long { original_context: 256 },
            _ => RopeRule::Plain,
        },
        window: matches!(architecture, Gemma2 | Gemma3 | Olmo2).then_some(24),
        is_tied: !matches!(architecture, Llama | Olmo2),
        vocabulary: match architecture.is_gemma() {
            true => VocabularyKind::TinySentencePiece,
            false => VocabularyKind::TinyByteLevel,
        },
    };
    TinyModel { shape, types: WeightTypes::All(tensor_type), seed }
}

impl TinyModel {
    /// The vocabulary of the file.
    pub fn vocabulary(&self) -> Vocabulary {
        Vocabulary::new(self.shape.vocabulary)
    }

    /// The file, to be written as it is or spoiled first.
    ///
    /// # Errors
    /// [`SynthError`] when a row is not a whole number of blocks of the wanted type.
    pub fn build(&self) -> Result<GgufFile, SynthError> {
        let vocabulary = self.vocabulary();
        let name = match self.shape.architecture {
            // llama.cpp wants certain tokens of models that are called phi3.
            Architecture::Phi3 => "tiny phi".to_owned(),
            architecture => format!("tiny {}", architecture.name()),
        };
        let mut file = GgufFile { metadata: metadata(&self.shape, &vocabulary, &name), tensors: Vec::new() };
        for (stream, slot) in tensors(&self.shape, vocabulary.len(), self.types)?.into_iter().enumerate() {
            let data = encode_slot(&slot, &mut Random::new(self.seed, stream as u64))?;
            file.push(slot.plan, data)?;
        }
        Ok(file)
    }
}

/// Draws and encodes all rows of a tensor.
pub fn encode_slot(slot: &Slot, random: &mut Random) -> Result<Vec<u8>, BlockError> {
    match &slot.spread {
        Spread::Given(values) => encode_row(slot.tensor_type, values),
        Spread::Normal { mean, deviation } => {
            let len = slot.plan.dims.iter().product::<u64>();
            let values: Vec<f32> = (0..len).map(|_| (mean + deviation * random.normal()) as f32).collect();
            encode_row(slot.tensor_type, &values)
        }
    }
}
