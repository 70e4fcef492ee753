//! The control block: the 32 bytes through which GPU kernels steer the decode loop, and the buffer it opens.
//!
//! ```text
//! Control buffer (u32 words)
//!   0  committed   positions in the cache
//!   1  live        nodes of this step, or prompt tokens of this batch
//!   2  context     positions the request may use
//!   3  end         EndReason, 0 while running
//!   4  pending     bit 31: parity, bits 0..4: accepted rows not yet copied to the cache
//!   5  tokens_left tokens the request may still emit
//!   6  poison      1 after a non-finite activation
//!   7  ring_head   tokens emitted since the request began
//!   8  hash        fold of the logits rows that chose each token
//!   9..16          reserved, zero
//!   16..80         end-of-generation ids, unused entries u32::MAX
//!   80..           token ring of RING_LEN ids, token t at slot t % RING_LEN
//! ```

/// Word offset of the end ids.
pub const END_IDS_WORD: u32 = 16;
/// End-of-generation ids a model may have.
pub const END_IDS_MAX: u32 = 64;
/// Word offset of the token ring.
pub const RING_WORD: u32 = END_IDS_WORD + END_IDS_MAX;
/// Slots of the ring: three windows of four steps of nine tokens, rounded up to a power of two.
pub const RING_LEN: u32 = 128;
/// Bytes of the whole buffer.
pub const CONTROL_BYTES: u64 = 4 * (RING_WORD + RING_LEN) as u64;
/// Most steps in a window.
pub const WINDOW_STEPS_MAX: u32 = 4;
/// Windows submitted before the oldest is read.
pub const WINDOWS_IN_FLIGHT: u32 = 2;
/// Most tokens a step commits: the root's successor and a draft eight deep.
pub const TOKENS_PER_STEP_MAX: u32 = 9;

/// Why a generation ended, as the accept kernel writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// An end-of-generation token was chosen.
    EndToken,
    /// The token limit was reached.
    TokenLimit,
    /// The context is full.
    ContextFull,
    /// An activation was NaN or infinite.
    Poisoned,
}

impl EndReason {
    /// From the control word; `None` while running.
    pub fn from_word(word: u32) -> Option<Self> {
        match word {
            1 => Some(Self::EndToken),
            2 => Some(Self::TokenLimit),
            3 => Some(Self::ContextFull),
            4 => Some(Self::Poisoned),
            _ => None,
        }
    }
}

/// The control block as the host reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "documented in the module's diagram")]
pub struct ControlBlock {
    pub committed: u32,
    pub live: u32,
    pub context: u32,
    pub end: u32,
    pub pending: u32,
    pub tokens_left: u32,
    pub poison: u32,
    pub ring_head: u32,
    pub hash: u32,
}

impl ControlBlock {
    /// As words, in buffer order.
    pub fn to_words(self) -> [u32; 9] {
        let Self { committed, live, context, end, pending, tokens_left, poison, ring_head, hash } = self;
        [committed, live, context, end, pending, tokens_left, poison, ring_head, hash]
    }
    /// From the first nine words of the buffer; `None` when there are fewer.
    pub fn from_words(words: &[u32]) -> Option<Self> {
        let [committed, live, context, end, pending, tokens_left, poison, ring_head, hash] =
            *words.first_chunk::<9>()?;
        Some(Self { committed, live, context, end, pending, tokens_left, poison, ring_head, hash })
    }
}
