//! Which pieces end a generation.
//!
//! Files name one or two of them and leave the others to be known by name, so both sources are used.

use super::error::TokenizerError;
use super::fields;
use super::vocabulary::{PieceKind, Vocabulary};
use crate::gguf::Metadata;
use std::collections::BTreeSet;

/// Keys that hold one id or an array of ids.
const KEYS: [&str; 6] = [
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eos_token_ids",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.fim_pad_token_id",
    "tokenizer.ggml.fim_sep_token_id",
];

/// Names that end a turn, a text or a file in the published model families.
const NAMES: [&str; 27] = [
    "</s>",
    "<eos>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<｜end▁of▁sentence｜>",
    // Ends of a file or of a fill in the middle: what follows belongs to another document.
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<reponame>",
    "<|file_sep|>",
];

/// The one name that counts although some files type it as ordinary text.
const ALWAYS: &str = "</s>";

/// Whether a text is the name of a piece that ends a generation.
pub(super) fn is_name(text: &str) -> bool {
    NAMES.contains(&text)
}

/// All ids that end a generation, in order.
pub(super) fn end_ids(metadata: &Metadata, vocabulary: &Vocabulary) -> Result<Vec<u32>, TokenizerError> {
    let mut ids = BTreeSet::new();
    for key in KEYS {
        ids.extend(fields::piece_ids(metadata, key, vocabulary.len())?);
    }
    let mut found = Vec::new();
    for (id, bytes, kind) in vocabulary.pieces() {
        let Some(name) = NAMES.iter().find(|name| name.as_bytes() == bytes) else { continue };
        if matches!(kind, PieceKind::Control | PieceKind::UserDefined) || *name == ALWAYS {
            found.push((*name, id));
        }
    }
    // In the vocabularies that have both of these, `<|end|>` only ends a message and another one follows.
    let has = |wanted: &str| found.iter().any(|(name, _)| *name == wanted);
    let end_continues = has("<|return|>") && has("<|call|>");
    ids.extend(found.iter().filter(|(name, _)| !(end_continues && *name == "<|end|>")).map(|(_, id)| *id));
    Ok(ids.into_iter().collect())
}
