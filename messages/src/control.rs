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
//!   6  poison      1 after a non-finite activation or logit
//!   7  ring_head   tokens emitted since the request began
//!   8  hash        fold of the logits rows that chose each token
//!   9..11          the accepted nodes at depths 1..4 and 5..8 of the last step, a byte each
//!   11 steps       live steps since the request began
//!   12..16         reserved, zero
//!   16..80         end-of-generation ids, unused entries u32::MAX
//!   80..208        token ring of RING_LEN ids, token t at slot t % RING_LEN
//!   208..336       the hash after each of those tokens
//!   336..          step records, 12 bytes each, step s at slot s % RECORDS
//! ```

/// Word offset of the end ids.
pub const END_IDS_WORD: u32 = 16;
/// End-of-generation ids a model may have.
pub const END_IDS_MAX: u32 = 64;
/// Word offset of the token ring.
pub const RING_WORD: u32 = END_IDS_WORD + END_IDS_MAX;
/// Slots of the ring: three windows of four steps of nine tokens, rounded up to a power of two.
pub const RING_LEN: u32 = 128;
/// Word offset of the hash ring.
pub const HASHES_WORD: u32 = RING_WORD + RING_LEN;
/// Word offset of the step records.
pub const RECORDS_WORD: u32 = HASHES_WORD + RING_LEN;
/// Slots of step records: three windows of four steps, rounded up to a power of two.
pub const RECORDS: u32 = 16;
/// Words of a step record.
pub const RECORD_WORDS: u32 = 3;
/// Bytes of the whole buffer.
pub const CONTROL_BYTES: u64 = 4 * (RECORDS_WORD + RECORDS * RECORD_WORDS) as u64;
/// Words of the control block proper.
pub const BLOCK_WORDS: usize = 12;
/// Most steps in a window.
pub const WINDOW_STEPS_MAX: u32 = 4;
/// Windows submitted before the oldest is read.
pub const WINDOWS_IN_FLIGHT: u32 = 2;
/// Most tokens a step commits: the root's successor and a draft eight deep.
pub const TOKENS_PER_STEP_MAX: u32 = 9;

/// Why a generation ended, as the accept kernel writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum EndReason {
    /// An end-of-generation token was chosen.
    EndToken = 1,
    /// The token limit was reached.
    TokenLimit = 2,
    /// The context is full.
    ContextFull = 3,
    /// An activation was NaN or infinite.
    Poisoned = 4,
}

impl EndReason {
    /// From the control word; `None` while running.
    pub fn from_word(word: u32) -> Option<Self> {
        let all = [Self::EndToken, Self::TokenLimit, Self::ContextFull, Self::Poisoned];
        all.into_iter().find(|reason| *reason as u32 == word)
    }
}

/// The control block as the host reads it; its fields lie as the words do.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, bytemuck::Pod, bytemuck::Zeroable)]
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
    pub path: [u32; 2],
    pub steps: u32,
}

impl ControlBlock {
    /// As words, in buffer order.
    pub fn to_words(self) -> [u32; BLOCK_WORDS] {
        bytemuck::cast(self)
    }
    /// From the first words of the buffer; `None` when there are fewer.
    pub fn from_words(words: &[u32]) -> Option<Self> {
        words.first_chunk::<BLOCK_WORDS>().map(|words| bytemuck::cast(*words))
    }
}

/// What a step did, as the accept kernel leaves it in three words.
///
/// ```text
///   0   live nodes | tokens emitted << 8 | longest match << 16 | nodes drafted << 24
///   1   expected accepted nodes of widths 2 | 4 << 10 | 8 << 20, in 64ths
///   2   of widths 16 | 32 << 10; nodes accepted << 20
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepRecord {
    /// Nodes it verified, the root included.
    pub live: u32,
    /// Tokens it emitted.
    pub emitted: u32,
    /// Nodes below the root that it committed.
    pub accepted: u32,
    /// Length of the longest suffix match of its draft, 0 without one.
    pub match_len: u32,
    /// Nodes that were drafted, the root included; 0 when nothing drafted.
    pub drafted: u32,
    /// Accepted nodes that the draft promised to widths 2, 4, 8, 16 and 32, in 64ths.
    pub expected: [u32; 5],
}

impl StepRecord {
    /// From its words.
    pub fn from_words([counts, low, high]: [u32; RECORD_WORDS as usize]) -> Self {
        let byte = |k: u32| counts >> (8 * k) & 0xff;
        let ten = |word: u32, k: u32| word >> (10 * k) & 0x3ff;
        Self {
            live: byte(0),
            emitted: byte(1),
            accepted: ten(high, 2),
            match_len: byte(2),
            drafted: byte(3),
            expected: [ten(low, 0), ten(low, 1), ten(low, 2), ten(high, 0), ten(high, 1)],
        }
    }
}
