//! The memory's loop: reads the host's store when a reply begins, writes it when one is learned.

use fanlight_messages::protocol::memory::{
    LearnOutput, MemoryRecalled, MemoryScope, RecallMemory, ResetConversation, StoreFault,
};

use super::core::MemoryCore;
use super::mail::MemoryMail;
use super::storage::MemoryStorage;
use crate::kit::Mailbox;

/// The memory's loop. It ends when every address is dropped.
pub async fn memory<S: MemoryStorage>(
    mut mailbox: Mailbox<MemoryMail>,
    storage: S,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut core = MemoryCore::default();
    while let Some(mail) = mailbox.next().await {
        match mail {
            MemoryMail::Recall(asked) => {
                let recalled = recall(&mut core, &storage, &asked.request).await;
                mailbox.note(&recalled.fault.clone().map_or(Ok(()), Err));
                asked.reply.send(recalled);
            }
            MemoryMail::Learn(asked) => {
                let learned = learn(&mut core, &storage, &asked.request).await;
                mailbox.answer(asked.reply, learned);
            }
            MemoryMail::Forget(asked) => {
                let forgotten = storage.update_all(MemoryCore::forgotten).await;
                core.forget();
                asked.reply.send(forgotten.map_err(|reason| StoreFault::Unwritable { reason }));
            }
            MemoryMail::Reset(ResetConversation) => core.reset_conversation(),
        }
    }
    Ok(())
}

async fn recall(core: &mut MemoryCore, storage: &impl MemoryStorage, asked: &RecallMemory) -> MemoryRecalled {
    let stored = match asked.scope {
        MemoryScope::Origin => storage.read(asked.key).await,
        MemoryScope::Off | MemoryScope::Conversation => Ok(None),
    };
    match stored {
        Ok(stored) => core.recall(asked.scope, asked.key, stored.as_deref()),
        Err(reason) => {
            let known = core.recall(asked.scope, asked.key, None);
            MemoryRecalled { fault: Some(StoreFault::Unreadable { reason }), ..known }
        }
    }
}

async fn learn(
    core: &mut MemoryCore,
    storage: &impl MemoryStorage,
    asked: &LearnOutput,
) -> Result<(), StoreFault> {
    let LearnOutput { scope, key, tokens } = asked;
    match scope {
        MemoryScope::Off => Ok(()),
        MemoryScope::Conversation => {
            core.learn_conversation(*key, tokens);
            Ok(())
        }
        MemoryScope::Origin => {
            let updated = storage.update(*key, |stored| core.learn_origin(*key, tokens, stored)).await;
            updated.map_err(|reason| StoreFault::Unwritable { reason })
        }
    }
}
