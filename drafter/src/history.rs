//! The tokens that are searched: session memory, then the context, in the layout of the GPU's buffer.

use fanlight_messages::draft::{MEMORY_TOKENS, SEPARATOR, memory_words};

/// Tokens by index: memory right-aligned below [`MEMORY_TOKENS`], position `p` of the context at
/// `MEMORY_TOKENS + p`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    words: Vec<u32>,
    first: u32,
}

impl History {
    /// With session memory, of which the newest [`MEMORY_TOKENS`] are kept, and an empty context.
    pub fn new(memory: &[u32]) -> Self {
        let kept = memory_words(memory);
        let first = MEMORY_TOKENS as usize - kept.len();
        let mut words = vec![SEPARATOR; first];
        words.extend(kept);
        Self { words, first: first as u32 }
    }

    /// Puts another session memory before the context.
    pub fn remember(&mut self, memory: &[u32]) {
        let kept = memory_words(memory);
        self.first = MEMORY_TOKENS - kept.len() as u32;
        let (before, words) = self.words[..MEMORY_TOKENS as usize].split_at_mut(self.first as usize);
        before.fill(SEPARATOR);
        words.copy_from_slice(&kept);
    }

    /// Forgets the context from position `len` on.
    pub fn rewind(&mut self, len: u32) {
        self.words.truncate((MEMORY_TOKENS + len) as usize);
    }

    /// The tokens of the context, by position.
    pub fn context(&self) -> &[u32] {
        &self.words[MEMORY_TOKENS as usize..]
    }

    /// Appends tokens to the context.
    pub fn extend(&mut self, tokens: &[u32]) {
        self.words.extend_from_slice(tokens);
    }

    /// First index that is searched.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Index of the last token of the context: the root of the next tree. `None` while it is empty.
    pub fn root(&self) -> Option<u32> {
        let last = self.words.len() as u32 - 1;
        (last >= MEMORY_TOKENS).then_some(last)
    }

    /// The token at an index, a separator beyond the end.
    pub fn token(&self, index: u32) -> u32 {
        self.words.get(index as usize).copied().unwrap_or(SEPARATOR)
    }

    /// All words, as the GPU's buffer holds them.
    pub fn words(&self) -> &[u32] {
        &self.words
    }
}
