//! The memory keeps what was said in earlier replies, for drafts to be made from. It never changes a reply.

use std::rc::Rc;

use thiserror::Error;

use super::Request;
use crate::error::Gone;

/// How far a reply is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryScope {
    /// Nothing is recalled, nothing learned.
    #[default]
    Off,
    /// Until the conversation is reset or another model loaded.
    Conversation,
    /// In the host's store, for as long as it keeps it.
    Origin,
}

/// Whose ids a memory holds: those of another tokenizer mean something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryKey {
    /// Hash of vocabulary, merges and pre-tokenizer.
    pub tokenizer: [u8; 16],
    /// Ids of the model; a draft never has a larger one.
    pub vocabulary_len: u32,
}

/// What is wrong with a store. What it holds is not used; the next reply that is learned replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreFault {
    /// It is no whole store.
    #[error("the session memory is damaged ({reason}): it is begun anew")]
    Corrupt {
        /// What was found.
        reason: &'static str,
    },
    /// It was written for another tokenizer.
    #[error("the session memory belongs to a model with another tokenizer: it is begun anew")]
    Foreign,
    /// It has another version of the format.
    #[error("the session memory has version {found} of its format, {wanted} is wanted: it is begun anew")]
    Version {
        /// Its version.
        found: u32,
        /// Ours.
        wanted: u32,
    },
    /// The host cannot read it.
    #[error("the session memory cannot be read: {reason}; this reply does without")]
    Unreadable {
        /// Why.
        reason: String,
    },
    /// The host cannot write it.
    #[error("the session memory cannot be written: {reason}; this reply is not remembered")]
    Unwritable {
        /// Why.
        reason: String,
    },
}

impl From<Gone> for StoreFault {
    fn from(gone: Gone) -> Self {
        Self::Unwritable { reason: gone.to_string() }
    }
}

/// Asks for what drafts of a reply may be made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallMemory {
    /// How far back.
    pub scope: MemoryScope,
    /// Of which model.
    pub key: MemoryKey,
}

/// The answer to [`RecallMemory`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryRecalled {
    /// As [`RequestSetup::memory`](crate::device::RequestSetup::memory) wants it.
    pub tokens: Rc<[u32]>,
    /// Why there is nothing of the store in it.
    pub fault: Option<StoreFault>,
}

impl Request for RecallMemory {
    type Reply = MemoryRecalled;
}

/// Remembers a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnOutput {
    /// How far.
    pub scope: MemoryScope,
    /// Of which model.
    pub key: MemoryKey,
    /// Its tokens.
    pub tokens: Rc<[u32]>,
}

impl Request for LearnOutput {
    type Reply = Result<(), StoreFault>;
}

/// Forgets every reply, those in the store too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgetMemory;

impl Request for ForgetMemory {
    type Reply = Result<(), StoreFault>;
}

/// Forgets the conversation, which nobody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResetConversation;
