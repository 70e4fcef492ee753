//! The session memory and its store: bounds, merging without loss, and every way in which bytes are refused.

use fanlight_drafter::session::{STORE_BYTES_MAX, STORE_VERSION, SessionMemory};
use fanlight_messages::draft::{MEMORY_TOKENS, SEPARATOR, memory_words};
use fanlight_messages::protocol::memory::{MemoryKey, StoreFault};
use proptest::prelude::*;

const KEY: MemoryKey = MemoryKey { tokenizer: [7; 16], vocabulary_len: 1000 };

fn memory(replies: &[&[u32]]) -> SessionMemory {
    let mut memory = SessionMemory::new(KEY);
    replies.iter().for_each(|reply| memory.learn(reply));
    memory
}

#[test]
fn replies_come_back_newest_last_and_a_known_one_moves_up() {
    let mut memory = memory(&[&[1, 2, 3], &[4, 5], &[9], &[]]);
    assert_eq!(memory.words(), [1, 2, 3, SEPARATOR, 4, 5, SEPARATOR], "one token foretells nothing");
    memory.learn(&[1, 2, 3]);
    assert_eq!(memory.words(), [4, 5, SEPARATOR, 1, 2, 3, SEPARATOR]);
    assert_eq!(SessionMemory::decode(&memory.encode(), KEY), Ok(memory));
}

#[test]
fn the_oldest_replies_make_room() {
    let mut memory = SessionMemory::new(KEY);
    for n in 0..50 {
        memory.learn(&vec![n; 999]);
    }
    let words = memory.words();
    assert_eq!(words.len(), 32 * 1000);
    assert_eq!((words[0], words[words.len() - 2]), (18, 49));
    memory.learn(&vec![5; MEMORY_TOKENS as usize + 10]);
    assert_eq!(memory.words().len(), MEMORY_TOKENS as usize, "the end of a reply that is too long");
    assert_eq!(memory_words(&memory.words()).len(), MEMORY_TOKENS as usize);
    // As many shortest replies as there can be still fit the largest store.
    let mut short = SessionMemory::new(MemoryKey { vocabulary_len: 20_000, ..KEY });
    (0..12_000).for_each(|n| short.learn(&[n, n]));
    assert!(short.encode().len() <= STORE_BYTES_MAX);
    assert_eq!(short.words().len(), MEMORY_TOKENS as usize / 3 * 3);
}

#[test]
fn damaged_foreign_and_other_stores_are_refused_by_name() {
    let bytes = memory(&[&[1, 2, 3], &[4, 999]]).encode();
    let decode = |bytes: &[u8]| SessionMemory::decode(bytes, KEY);
    for len in 0..bytes.len() {
        assert!(matches!(decode(&bytes[..len]), Err(StoreFault::Corrupt { .. })), "cut to {len}");
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(decode(&damaged).is_err(), "bit {bit} of byte {at}");
        }
    }
    let mut older = bytes.clone();
    older[8] = 0;
    assert_eq!(decode(&older), Err(StoreFault::Version { found: 0, wanted: STORE_VERSION }));
    let foreign = MemoryKey { tokenizer: [8; 16], ..KEY };
    assert_eq!(SessionMemory::decode(&bytes, foreign), Err(StoreFault::Foreign));
    let fewer = MemoryKey { vocabulary_len: 999, ..KEY };
    assert!(matches!(SessionMemory::decode(&bytes, fewer), Err(StoreFault::Corrupt { .. })), "id 999");
    assert!(matches!(decode(&[&bytes[..], &[0]].concat()), Err(StoreFault::Corrupt { .. })));
    assert!(matches!(decode(&vec![0; STORE_BYTES_MAX + 1]), Err(StoreFault::Corrupt { .. })));
}

#[test]
fn what_is_forgotten_does_not_come_back() {
    let live = memory(&[&[1, 2, 3]]);
    let forgotten = SessionMemory::forgotten(&live.encode());
    let mut stored = SessionMemory::decode(&forgotten, KEY).expect("an empty store");
    stored.merge(live.clone());
    assert!(stored.words().is_empty(), "an engine that still has the replies brings none back");
    let mut other = live;
    other.merge(stored);
    assert!(other.words().is_empty(), "and forgets them itself");
    assert!(SessionMemory::forgotten(b"something else").is_empty(), "what is no store is removed");
}

proptest! {
    /// Two writers: whoever merges first, both end with every reply of either.
    #[test]
    fn merging_loses_nothing_and_its_sides_agree(
        left in prop::collection::vec(prop::collection::vec(0..1000u32, 2..9), 0..9),
        right in prop::collection::vec(prop::collection::vec(0..1000u32, 2..9), 0..9),
    ) {
        let of = |replies: &[Vec<u32>]| memory(&replies.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let (mut one, mut two) = (of(&left), of(&right));
        one.merge(of(&right));
        two.merge(of(&left));
        prop_assert_eq!(&one, &two);
        for reply in left.iter().chain(&right) {
            let words = one.words();
            let found = words.split(|word| *word == SEPARATOR).any(|known| known == &reply[..]);
            prop_assert!(found, "{:?} is lost", reply);
        }
        one.merge(two.clone());
        prop_assert_eq!(one, two);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = SessionMemory::decode(&bytes, KEY);
        let _ = SessionMemory::forgotten(&bytes);
        let mut behind = memory(&[]).encode();
        behind.truncate(12);
        behind.extend(&bytes);
        let _ = SessionMemory::decode(&behind, KEY);
    }
}
