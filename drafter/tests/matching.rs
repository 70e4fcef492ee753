//! The matches that are found, against a plain comparison of every earlier place with the end of the text.

use fanlight_drafter::{History, Match, find_matches};
use fanlight_messages::draft::{MATCHES_MAX, MEMORY_TOKENS, ORDERS, SCAN_KEPT, SCAN_POSITIONS, SEPARATOR};
use proptest::prelude::*;

/// Matches by definition: every earlier place whose last tokens equal those of the whole text, separators
/// equal to nothing; the best few of each stretch of indices, and the best of those.
fn by_definition(memory: &[u32], context: &[u32]) -> Vec<Match> {
    // One separator stands between memory and context, whether or not the memory ends with it.
    let memory = memory.strip_suffix(&[SEPARATOR]).unwrap_or(memory);
    let text: Vec<u32> = memory.iter().chain(&[SEPARATOR]).chain(context).copied().collect();
    let index_of = |place: usize| MEMORY_TOKENS as usize + context.len() - text.len() + place;
    let mut stretches = std::collections::BTreeMap::<usize, Vec<(usize, usize)>>::new();
    for place in 0..text.len() - 1 {
        let longest = (1..=ORDERS as usize).rev().find(|len| {
            let end = &text[text.len() - len.min(&text.len())..];
            place + 1 >= *len && !end.contains(&SEPARATOR) && text[place + 1 - len..=place] == *end
        });
        if let Some(len) = longest {
            let index = index_of(place);
            stretches.entry(index / SCAN_POSITIONS as usize).or_default().push((len, index));
        }
    }
    let best_of = |mut found: Vec<(usize, usize)>, count: u32| {
        found.sort_by(|a, b| b.cmp(a));
        found.truncate(count as usize);
        found
    };
    let kept = stretches.into_values().flat_map(|found| best_of(found, SCAN_KEPT)).collect();
    let best = best_of(kept, MATCHES_MAX);
    best.into_iter().map(|(len, index)| Match { index: index as u32, len: len as u32 }).collect()
}

fn found(memory: &[u32], context: &[u32]) -> Vec<Match> {
    let mut history = History::new(memory);
    history.extend(context);
    find_matches(&history)
}

/// Tokens of a small vocabulary; every twentieth or so is a separator where `separated`.
fn text(len: std::ops::Range<usize>, separated: bool) -> impl Strategy<Value = Vec<u32>> {
    (1u32..6).prop_flat_map(move |vocabulary| {
        let token = (0u32..20, 0..vocabulary)
            .prop_map(move |(pick, token)| if separated && pick == 0 { SEPARATOR } else { token });
        prop::collection::vec(token, len.clone())
    })
}

proptest! {
    #[test]
    fn matches_are_those_of_a_plain_scan(memory in text(0..300, true), context in text(1..300, false)) {
        prop_assert_eq!(found(&memory, &context), by_definition(&memory, &context));
    }

    #[test]
    fn a_key_is_its_match_again(index in 0u32..=0xffff, len in 1..=ORDERS) {
        let found = Match { index, len };
        prop_assert_eq!(Match::from_key(found.key()), found);
    }
}

#[test]
fn long_texts_keep_the_best_of_each_stretch() {
    // Three ids in an order without a short period: far more matches than are kept.
    let token = |i: u32| (i.wrapping_mul(2_654_435_761) >> 13) % 3;
    let memory: Vec<u32> = (0..3000).map(token).collect();
    let context: Vec<u32> = (5000..8100).map(token).collect();
    let got = found(&memory, &context);
    assert_eq!(got, by_definition(&memory, &context));
    assert_eq!(got.len(), MATCHES_MAX as usize);
    let of_one_stretch = got.iter().filter(|m| m.index / SCAN_POSITIONS == 32).count();
    assert!(of_one_stretch <= SCAN_KEPT as usize, "{of_one_stretch}");
}

#[test]
fn the_newest_memory_is_kept_and_a_separator_stands_behind_it() {
    let memory: Vec<u32> = (0..MEMORY_TOKENS + 500).collect();
    let mut history = History::new(&memory);
    assert_eq!((history.first(), history.root()), (0, None));
    let kept = &history.words()[..MEMORY_TOKENS as usize];
    assert_eq!(kept[..kept.len() - 1], memory[501..]);
    assert_eq!(kept.last(), Some(&SEPARATOR));

    let short = History::new(&[4, 5, SEPARATOR]);
    assert_eq!(short, History::new(&[4, 5]), "a separator at the end is not doubled");
    assert_eq!(short.first(), MEMORY_TOKENS - 3);
    history.extend(&[7, 8]);
    assert_eq!((history.root(), history.token(MEMORY_TOKENS + 1)), (Some(MEMORY_TOKENS + 1), 8));
    assert_eq!(history.token(MEMORY_TOKENS + 2), SEPARATOR);
}

#[test]
fn without_a_context_nothing_matches() {
    assert_eq!(found(&[1, 2, 3], &[]), []);
    assert_eq!(found(&[], &[1]), []);
    assert_eq!(found(&[1], &[1]), [Match { index: MEMORY_TOKENS - 2, len: 1 }]);
}
