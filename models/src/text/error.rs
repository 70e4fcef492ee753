//! What can be wrong with the tokenizer part of a model file.

use crate::gguf::MetadataError;
use thiserror::Error;

/// Why a tokenizer could not be built from a file's metadata.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A key is missing or holds something else than it should.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// Two arrays that describe the same pieces differ in length.
    #[error("metadata key `{key}` has {found} entries but the vocabulary has {wanted}; the file is damaged")]
    CountMismatch {
        /// The key of the array.
        key: &'static str,
        /// Entries of the vocabulary.
        wanted: usize,
        /// Entries of the array.
        found: usize,
    },
    /// The vocabulary is empty or larger than any real one.
    #[error("the vocabulary has {found} pieces but 1 to {limit} are supported")]
    VocabularySize {
        /// Pieces in the file.
        found: usize,
        /// Most pieces accepted.
        limit: usize,
    },
    /// The kind of tokenizer is not one this crate implements.
    #[error("tokenizer model `{found}` is not supported; supported are `gpt2` and `llama`")]
    UnknownModel {
        /// The value in the file.
        found: String,
    },
    /// The pre-tokenizer rule is not known; any other rule would give wrong ids.
    #[error("pre-tokenizer `{found}` is not supported; supported are {known}")]
    UnknownPreTokenizer {
        /// The value in the file.
        found: String,
        /// The values that are supported, separated by commas.
        known: String,
    },
    /// A merge line does not consist of two halves with one space between.
    #[error("merge {index} is not two pieces separated by a space; the file is damaged")]
    MalformedMerge {
        /// Position in the list of merges.
        index: usize,
    },
    /// A merge names a piece that the vocabulary lacks.
    #[error("merge {index} needs the piece `{piece}`, which the vocabulary lacks; the file is damaged")]
    MergeWithoutPiece {
        /// Position in the list of merges.
        index: usize,
        /// The missing piece, invalid UTF-8 replaced.
        piece: String,
    },
    /// A score is not a finite number, so pieces cannot be ranked.
    #[error("the score of piece {id} is not a finite number; the file is damaged")]
    ScoreNotFinite {
        /// The piece.
        id: usize,
    },
    /// A special id lies outside the vocabulary.
    #[error("metadata key `{key}` names piece {id} but the vocabulary has {len} pieces; the file is damaged")]
    IdOutOfRange {
        /// The key that was read.
        key: &'static str,
        /// The id it holds.
        id: u32,
        /// Pieces in the vocabulary.
        len: usize,
    },
    /// The text of a control or user-defined piece is unreasonably long.
    #[error("the special piece {id} is {found} bytes long but at most {limit} are supported")]
    SpecialTooLong {
        /// The piece.
        id: usize,
        /// Its length in bytes.
        found: usize,
        /// The longest accepted.
        limit: usize,
    },
    /// A pre-tokenizer rule of this crate does not compile, which is a defect of this crate.
    #[error("the built-in rule of pre-tokenizer `{name}` does not compile: {reason}; please report this")]
    BrokenRule {
        /// The pre-tokenizer.
        name: String,
        /// What the compiler of regular expressions says.
        reason: String,
    },
}
