//! SentencePiece encoding by scores: the neighbours whose union has the highest score are merged first.
//!
//! Differs from byte-pair merging in that any two neighbours may merge whose text is a piece; there is no
//! list of merges. What is no piece falls back to byte pieces, or to one unknown piece per run.

use super::merge::{Symbol, merge};
use super::vocabulary::{PieceKind, Vocabulary};
use std::cmp::Ordering;

/// The character that SentencePiece writes for a space.
pub(super) const SPACE_MARK: char = '\u{2581}';

/// Encoder for `tokenizer.ggml.model = llama`. The vocabulary holds pieces with plain spaces for
/// [`SPACE_MARK`].
#[derive(Debug)]
pub(super) struct SentencePiece {
    scores: Vec<f32>,
    bytes: Option<Box<[u32; 256]>>,
    unknown: Option<u32>,
    /// Whether a space is put before the text.
    pub add_space_prefix: bool,
}

/// Finite f32 in their total order.
#[derive(PartialEq)]
struct Score(f32);

impl Eq for Score {}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl SentencePiece {
    /// `scores` has one finite entry per piece.
    pub fn new(
        vocabulary: &Vocabulary,
        scores: Vec<f32>,
        unknown: Option<u32>,
        add_space_prefix: bool,
    ) -> Self {
        let mut found = [None; 256];
        for id in (0..vocabulary.len()).rev() {
            if let ([byte], PieceKind::Byte) = (vocabulary.bytes(id as u32), vocabulary.kind(id as u32)) {
                found[*byte as usize] = Some(id as u32);
            }
        }
        let complete: Option<Vec<u32>> = found.into_iter().collect();
        let bytes = complete.and_then(|ids| <[u32; 256]>::try_from(ids).ok()).map(Box::new);
        Self { scores, bytes, unknown, add_space_prefix }
    }

    /// Whether every byte can be written.
    pub fn has_byte_pieces(&self) -> bool {
        self.bytes.is_some()
    }

    /// Appends the ids of `text`, in which [`SPACE_MARK`] has been replaced by a space.
    pub fn encode(&self, vocabulary: &Vocabulary, text: &str, ids: &mut Vec<u32>) {
        let mut symbols: Vec<Symbol> = text
            .char_indices()
            .map(|(start, character)| {
                let end = start + character.len_utf8();
                Symbol { start, end, id: vocabulary.find(&text.as_bytes()[start..end]) }
            })
            .collect();
        merge(&mut symbols, |left, right| {
            let id = vocabulary.find(&text.as_bytes()[left.start..right.end])?;
            Some((Score(self.scores[id as usize]), id))
        });
        let mut in_unknown_run = false;
        for symbol in symbols {
            match (symbol.id, &self.bytes) {
                (Some(id), _) => ids.push(id),
                (None, Some(bytes)) => {
                    let stretch = &text.as_bytes()[symbol.start..symbol.end];
                    ids.extend(stretch.iter().map(|&byte| bytes[byte as usize]));
                }
                (None, None) if !in_unknown_run => ids.extend(self.unknown),
                (None, None) => {}
            }
            in_unknown_run = symbol.id.is_none();
        }
    }
}
