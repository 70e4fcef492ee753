//! The session memory: replies of one tokenizer, newest last, and the bytes in which a host keeps them.
//!
//! ```text
//! Store (little-endian)
//!   0    "FLMEMORY"
//!   8    version, u32
//!   12   hash of the tokenizer, 16 bytes
//!   28   epoch, u64: how often everything was forgotten
//!   36   replies, u32; then each: order u64, tokens u32, and the ids, u32 each
//!   ..   checksum of all before, u64 (FNV-1a: Fowler, Noll and Vo)
//! ```
//!
//! Two memories of one tokenizer merge without loss: the later epoch wins, and in one epoch every reply of
//! either stays, as far as there is room.

use fanlight_messages::draft::{MEMORY_TOKENS, SEPARATOR};
use fanlight_messages::protocol::memory::{MemoryKey, StoreFault};

const MAGIC: &[u8; 8] = b"FLMEMORY";
/// Version of the format.
pub const STORE_VERSION: u32 = 1;
const HEADER_BYTES: usize = 40;
const CHECKSUM_BYTES: usize = 8;
const REPLY_HEADER_BYTES: usize = 12;
/// Shortest reply that is remembered: a match and one token that follows it.
pub const REPLY_TOKENS_MIN: usize = 2;
/// Bytes of the largest store: as many shortest replies as fit. A larger one is none of ours.
pub const STORE_BYTES_MAX: usize = HEADER_BYTES
    + CHECKSUM_BYTES
    + MEMORY_TOKENS as usize / (REPLY_TOKENS_MIN + 1) * (REPLY_HEADER_BYTES + 4 * REPLY_TOKENS_MIN)
    + 4 * MEMORY_TOKENS as usize;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Reply {
    /// Later ones have greater orders; two writers may give the same.
    order: u64,
    tokens: Vec<u32>,
}

/// Replies that drafts may be made from, at most [`MEMORY_TOKENS`] with a separator behind each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionMemory {
    tokenizer: [u8; 16],
    epoch: u64,
    /// In order, the oldest first.
    replies: Vec<Reply>,
}

impl SessionMemory {
    /// Nothing yet.
    pub fn new(key: MemoryKey) -> Self {
        Self { tokenizer: key.tokenizer, epoch: 0, replies: Vec::new() }
    }

    /// Whether it is of this tokenizer.
    pub fn is_of(&self, key: MemoryKey) -> bool {
        self.tokenizer == key.tokenizer
    }

    /// Remembers a reply as the newest; of one that is too long, its end. One that is known moves up.
    pub fn learn(&mut self, tokens: &[u32]) {
        let tokens = &tokens[tokens.len().saturating_sub(MEMORY_TOKENS as usize - 1)..];
        if tokens.len() < REPLY_TOKENS_MIN {
            return;
        }
        let order = self.replies.last().map_or(0, |newest| newest.order.saturating_add(1));
        self.replies.retain(|reply| reply.tokens != tokens);
        self.replies.push(Reply { order, tokens: tokens.to_vec() });
        self.trim();
    }

    /// Takes over what another memory of the same tokenizer has.
    pub fn merge(&mut self, other: Self) {
        if other.tokenizer != self.tokenizer || other.epoch < self.epoch {
            return;
        }
        if other.epoch > self.epoch {
            *self = other;
            return;
        }
        for reply in other.replies {
            match self.replies.iter_mut().find(|own| own.tokens == reply.tokens) {
                Some(own) => own.order = own.order.max(reply.order),
                None => self.replies.push(reply),
            }
        }
        self.replies.sort();
        self.trim();
    }

    /// Lets the oldest go until the rest fits.
    fn trim(&mut self) {
        let mut room = MEMORY_TOKENS as usize;
        let fits = |reply: &Reply| {
            let left = room.checked_sub(reply.tokens.len() + 1);
            room = left.unwrap_or(0);
            left.is_some()
        };
        let kept = self.replies.iter().rev().map(fits).take_while(|fits| *fits).count();
        self.replies.drain(..self.replies.len() - kept);
    }

    /// The replies, newest last, a separator behind each.
    pub fn words(&self) -> Vec<u32> {
        self.replies.iter().flat_map(|reply| reply.tokens.iter().copied().chain([SEPARATOR])).collect()
    }

    /// As a host keeps it.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(STORE_VERSION.to_le_bytes());
        bytes.extend(self.tokenizer);
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend((self.replies.len() as u32).to_le_bytes());
        for reply in &self.replies {
            bytes.extend(reply.order.to_le_bytes());
            bytes.extend((reply.tokens.len() as u32).to_le_bytes());
            bytes.extend(reply.tokens.iter().flat_map(|token| token.to_le_bytes()));
        }
        let sum = checksum(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// Of what a host has kept.
    ///
    /// # Errors
    /// [`StoreFault`] says why the bytes are of no use; nothing of them is.
    pub fn decode(bytes: &[u8], key: MemoryKey) -> Result<Self, StoreFault> {
        let corrupt = |reason| StoreFault::Corrupt { reason };
        let mut rest = checked(bytes)?;
        let tokenizer = take::<16>(&mut rest).ok_or(corrupt("its header is cut off"))?;
        if tokenizer != key.tokenizer {
            return Err(StoreFault::Foreign);
        }
        let cut_off = || corrupt("it is cut off");
        let epoch = u64::from_le_bytes(take(&mut rest).ok_or_else(cut_off)?);
        let count = u32::from_le_bytes(take(&mut rest).ok_or_else(cut_off)?);
        let mut memory = Self { tokenizer, epoch, replies: Vec::new() };
        for _ in 0..count {
            let order = u64::from_le_bytes(take(&mut rest).ok_or_else(cut_off)?);
            let len = u32::from_le_bytes(take(&mut rest).ok_or_else(cut_off)?) as usize;
            let (tokens, behind) = rest.split_at_checked(len.saturating_mul(4)).ok_or_else(cut_off)?;
            rest = behind;
            let tokens: Vec<u32> =
                tokens.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
            if tokens.len() < REPLY_TOKENS_MIN || tokens.iter().any(|token| *token >= key.vocabulary_len) {
                return Err(corrupt("a reply holds ids that the model does not have, or too few"));
            }
            memory.replies.push(Reply { order, tokens });
        }
        if !rest.is_empty() {
            return Err(corrupt("bytes follow its end"));
        }
        memory.replies.sort();
        memory.trim();
        Ok(memory)
    }

    /// Whose a store is, by its first bytes; `None` of what is no store. Whether the rest is whole is another
    /// question.
    pub fn tokenizer_of(bytes: &[u8]) -> Option<[u8; 16]> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        take::<4>(&mut rest)?;
        take(&mut rest)
    }

    /// What a host is to keep when everything is forgotten: an empty store of a later epoch, so that no other
    /// engine brings the replies back. Of bytes that are no store nothing is left.
    pub fn forgotten(bytes: &[u8]) -> Vec<u8> {
        let header = checked(bytes).ok().and_then(|mut rest| {
            let tokenizer = take::<16>(&mut rest)?;
            Some((tokenizer, u64::from_le_bytes(take(&mut rest)?)))
        });
        let Some((tokenizer, epoch)) = header else { return Vec::new() };
        Self { tokenizer, epoch: epoch.saturating_add(1), replies: Vec::new() }.encode()
    }
}

/// What lies between version and checksum of a store that is whole.
fn checked(bytes: &[u8]) -> Result<&[u8], StoreFault> {
    let corrupt = |reason| Err(StoreFault::Corrupt { reason });
    if bytes.len() > STORE_BYTES_MAX {
        return corrupt("it is larger than any store");
    }
    let Some(rest) = bytes.strip_prefix(MAGIC) else { return corrupt("it does not begin as a store does") };
    // The version first: another one may be checked in another way.
    let mut rest = rest;
    let Some(version) = take(&mut rest).map(u32::from_le_bytes) else { return corrupt("it is cut off") };
    if version != STORE_VERSION {
        return Err(StoreFault::Version { found: version, wanted: STORE_VERSION });
    }
    let Some((rest, sum)) = rest.split_last_chunk::<CHECKSUM_BYTES>() else {
        return corrupt("it is cut off");
    };
    let whole = &bytes[..bytes.len() - CHECKSUM_BYTES];
    if checksum(whole) != u64::from_le_bytes(*sum) {
        return corrupt("its checksum is another");
    }
    Ok(rest)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*taken)
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3))
}
