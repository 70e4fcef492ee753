//! What the engine asks of the memory. `Err` only when the memory is gone.

use std::rc::Rc;

use fanlight_messages::error::GenerateError;
use fanlight_messages::protocol::memory::{
    ForgetMemory, LearnOutput, MemoryKey, MemoryRecalled, MemoryScope, RecallMemory, StoreFault,
};

use super::shell::EngineLinks;
use crate::kit::Gone;
use crate::memory::MemoryMail;

fn gone(_: Gone) -> GenerateError {
    GenerateError::EngineGone { actor: "memory" }
}

/// What drafts of a reply may be made from.
pub(super) async fn recall(
    links: &EngineLinks,
    scope: MemoryScope,
    key: MemoryKey,
) -> Result<MemoryRecalled, GenerateError> {
    links.memory.ask(RecallMemory { scope, key }).await.map_err(gone)
}

/// Has a reply remembered; says why it is not.
pub(super) async fn learn(
    links: &EngineLinks,
    scope: MemoryScope,
    key: MemoryKey,
    tokens: Rc<[u32]>,
) -> Result<Option<StoreFault>, GenerateError> {
    let learned = links.memory.ask(LearnOutput { scope, key, tokens }).await;
    Ok(learned.map_err(gone)?.err())
}

/// Forgets every reply.
pub(super) async fn forget(links: &EngineLinks) -> Result<Result<(), StoreFault>, GenerateError> {
    links.memory.ask(ForgetMemory).await.map_err(gone)
}

/// Forgets the conversation.
pub(super) async fn reset(links: &EngineLinks) -> Result<(), GenerateError> {
    links.memory.tell(MemoryMail::ResetConversation).await.map_err(gone)
}
