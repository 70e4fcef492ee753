//! What is remembered, by scope. Pure: bytes of the store in and out.

use std::rc::Rc;

use fanlight_drafter::session::SessionMemory;
use fanlight_messages::protocol::memory::{MemoryKey, MemoryRecalled, MemoryScope, StoreFault};

/// The memories of an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryCore {
    conversation: Option<SessionMemory>,
    /// What this engine knows of the store.
    origin: Option<SessionMemory>,
}

/// The memory in `slot` if it is of this tokenizer, else a new one in its place.
fn of_key(slot: &mut Option<SessionMemory>, key: MemoryKey) -> &mut SessionMemory {
    slot.take_if(|memory| !memory.is_of(key));
    slot.get_or_insert_with(|| SessionMemory::new(key))
}

impl MemoryCore {
    /// What drafts may be made from; `stored` is what the store holds, read for the scope
    /// [`Origin`](MemoryScope::Origin) only.
    pub fn recall(&mut self, scope: MemoryScope, key: MemoryKey, stored: Option<&[u8]>) -> MemoryRecalled {
        let (memory, fault) = match scope {
            MemoryScope::Off => return MemoryRecalled::default(),
            MemoryScope::Conversation => (of_key(&mut self.conversation, key), None),
            MemoryScope::Origin => {
                let fault = self.take_over(key, stored);
                (of_key(&mut self.origin, key), fault)
            }
        };
        MemoryRecalled { tokens: memory.words().into(), fault }
    }

    /// Remembers a reply until the conversation is reset.
    pub fn learn_conversation(&mut self, key: MemoryKey, tokens: &[u32]) {
        of_key(&mut self.conversation, key).learn(tokens);
    }

    /// Remembers a reply for good: what the store is to hold in place of `stored`.
    pub fn learn_origin(&mut self, key: MemoryKey, tokens: &Rc<[u32]>, stored: Option<&[u8]>) -> Vec<u8> {
        // A store of no use was reported when it was recalled; it is replaced now.
        let _ = self.take_over(key, stored);
        let memory = of_key(&mut self.origin, key);
        memory.learn(tokens);
        memory.encode()
    }

    /// Merges what the store holds into what is known of it.
    fn take_over(&mut self, key: MemoryKey, stored: Option<&[u8]>) -> Option<StoreFault> {
        let stored = stored.filter(|bytes| !bytes.is_empty())?;
        match SessionMemory::decode(stored, key) {
            Ok(stored) => of_key(&mut self.origin, key).merge(stored),
            Err(fault) => return Some(fault),
        }
        None
    }

    /// Forgets the conversation.
    pub fn reset_conversation(&mut self) {
        self.conversation = None;
    }

    /// Forgets everything that this engine knows.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// What the store is to hold in place of `stored` when everything is forgotten.
    pub fn forgotten(stored: Option<&[u8]>) -> Vec<u8> {
        SessionMemory::forgotten(stored.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use fanlight_messages::draft::SEPARATOR;

    use super::*;

    const KEY: MemoryKey = MemoryKey { tokenizer: [1; 16], vocabulary_len: 100 };
    const OTHER: MemoryKey = MemoryKey { tokenizer: [2; 16], vocabulary_len: 100 };

    fn words(core: &mut MemoryCore, scope: MemoryScope, stored: Option<&[u8]>) -> Vec<u32> {
        core.recall(scope, KEY, stored).tokens.to_vec()
    }

    #[test]
    fn scopes_are_apart_and_a_reset_forgets_the_conversation_only() {
        let mut core = MemoryCore::default();
        core.learn_conversation(KEY, &[1, 2]);
        let stored = core.learn_origin(KEY, &[3, 4].into(), None);
        assert!(words(&mut core, MemoryScope::Off, Some(&stored)).is_empty());
        assert_eq!(words(&mut core, MemoryScope::Conversation, None), [1, 2, SEPARATOR]);
        assert_eq!(words(&mut core, MemoryScope::Origin, Some(&stored)), [3, 4, SEPARATOR]);
        core.reset_conversation();
        assert!(words(&mut core, MemoryScope::Conversation, None).is_empty());
        assert_eq!(words(&mut core, MemoryScope::Origin, Some(&stored)), [3, 4, SEPARATOR]);
        // A model with another tokenizer begins anew.
        assert_eq!(core.recall(MemoryScope::Origin, OTHER, Some(&stored)).fault, Some(StoreFault::Foreign));
        assert!(core.recall(MemoryScope::Origin, OTHER, None).tokens.is_empty());
    }

    #[test]
    fn two_engines_on_one_store_keep_the_replies_of_both() {
        let (mut one, mut two) = (MemoryCore::default(), MemoryCore::default());
        let stored = one.learn_origin(KEY, &[1, 2].into(), None);
        // The second has never read what the first wrote.
        let stored = two.learn_origin(KEY, &[3, 4].into(), Some(&stored));
        let stored = one.learn_origin(KEY, &[5, 6].into(), Some(&stored));
        for core in [&mut one, &mut two, &mut MemoryCore::default()] {
            let all = words(core, MemoryScope::Origin, Some(&stored));
            assert_eq!(all, [1, 2, SEPARATOR, 3, 4, SEPARATOR, 5, 6, SEPARATOR]);
        }
        // And what one forgets, the other does not bring back.
        one.forget();
        let stored = MemoryCore::forgotten(Some(&stored));
        let stored = two.learn_origin(KEY, &[7, 8].into(), Some(&stored));
        assert_eq!(words(&mut one, MemoryScope::Origin, Some(&stored)), [7, 8, SEPARATOR]);
    }

    #[test]
    fn a_store_of_no_use_is_reported_and_replaced() {
        let mut core = MemoryCore::default();
        let recalled = core.recall(MemoryScope::Origin, KEY, Some(b"not a store"));
        assert!(matches!(recalled.fault, Some(StoreFault::Corrupt { .. })));
        let stored = core.learn_origin(KEY, &[1, 2].into(), Some(b"not a store"));
        let recalled = core.recall(MemoryScope::Origin, KEY, Some(&stored));
        assert_eq!((&recalled.tokens[..], recalled.fault), (&[1, 2, SEPARATOR][..], None));
    }
}
