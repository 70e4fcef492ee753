//! Ids to text, one id at a time, never half a character.

use super::tokenizer::{TokenId, Tokenizer};

/// Where the decoded ids stand in their text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextPosition {
    /// At its start: the space that encoding put there is dropped.
    Start,
    /// After other text, as a reply after its prompt: every space counts.
    Continuation,
}

/// Holds the bytes of an unfinished character until the ids that complete it arrive.
#[derive(Debug, Clone)]
pub struct Detokenizer {
    held: Vec<u8>,
    drops_space: bool,
}

impl Detokenizer {
    /// For ids of this tokenizer at this position.
    pub fn new(tokenizer: &Tokenizer, position: TextPosition) -> Self {
        let drops_space = position == TextPosition::Start && tokenizer.adds_space();
        Self { held: Vec::new(), drops_space }
    }

    /// The characters that this id completes. Control and ending pieces have no text.
    ///
    /// Bytes that can begin no character are replaced by U+FFFD at once.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: TokenId) -> String {
        if tokenizer.is_control(id) || tokenizer.is_end(id) {
            return String::new();
        }
        let mut bytes = tokenizer.token_bytes(id);
        if std::mem::take(&mut self.drops_space) {
            bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
        }
        self.held.extend_from_slice(bytes);
        let complete = self.held.len() - unfinished_len(&self.held);
        let text = String::from_utf8_lossy(&self.held[..complete]).into_owned();
        self.held.drain(..complete);
        text
    }

    /// The replacement for a character that was never completed.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.held).into_owned()
    }

    /// Bytes held back: at most 3.
    pub fn held_bytes(&self) -> &[u8] {
        &self.held
    }
}

/// Length of the beginning of a character that `bytes` end with.
fn unfinished_len(bytes: &[u8]) -> usize {
    // A character has at most four bytes, so an unfinished one has at most three.
    let tail_start = bytes.len().saturating_sub(3);
    (tail_start..bytes.len())
        .find(|&start| {
            std::str::from_utf8(&bytes[start..])
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .map_or(0, |start| bytes.len() - start)
}
