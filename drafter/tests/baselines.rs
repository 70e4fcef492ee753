//! The published drafters on texts short enough to draft by hand.

use fanlight_drafter::baseline::{PromptLookup, SuffixTree};
use fanlight_drafter::{DraftTree, Drafter, History};
use fanlight_messages::draft::{DEPTH_MAX, NODES_MAX, SEPARATOR};

fn drafted(drafter: &mut dyn Drafter, memory: &[u32], context: &[u32]) -> DraftTree {
    let mut history = History::new(memory);
    history.extend(context);
    let tree = drafter.draft(&history);
    if let Some(root) = tree.nodes.first() {
        assert_eq!(Some(&root.token), context.last(), "the root is the last token");
    }
    assert!(tree.nodes.len() <= NODES_MAX as usize);
    tree
}

/// Every drafted path, sorted.
fn paths(tree: &DraftTree) -> Vec<Vec<u32>> {
    let mut paths: Vec<Vec<u32>> = vec![Vec::new()];
    for node in tree.nodes.iter().skip(1) {
        let mut path = paths[node.parent as usize].clone();
        path.push(node.token);
        assert_eq!(path.len(), node.depth as usize);
        paths.push(path);
    }
    paths.remove(0);
    paths.sort();
    paths
}

/// The longest path of a tree that must be a chain.
fn chain(tree: &DraftTree) -> Vec<u32> {
    let paths = paths(tree);
    assert!(paths.iter().enumerate().all(|(n, path)| path.len() == n + 1), "no chain: {paths:?}");
    paths.last().cloned().unwrap_or_default()
}

#[test]
fn prompt_lookup_copies_behind_the_first_occurrence_of_the_longest_ngram() {
    let lookup = |context: &[u32]| chain(&drafted(&mut PromptLookup, &[], context));
    assert_eq!(lookup(&[1, 2, 3, 9, 1, 2, 3]), [9, 1, 2, 3], "three tokens agree; it ends with the text");
    assert_eq!(lookup(&[5, 1, 7, 5, 1, 8, 5, 1]), [7, 5, 1, 8, 5, 1], "the first of two, not the last");
    assert_eq!(lookup(&[4, 1, 6, 5, 1, 7, 5, 1]), [7, 5, 1], "two tokens are better than an earlier one");
    assert_eq!(lookup(&[4, 1, 6, 5, 1]), [6, 5, 1], "one token will do");
    assert!(lookup(&[1, 2, 3]).is_empty(), "no occurrence");
    assert!(lookup(&[1]).is_empty());
    let long: Vec<u32> = (0..20).chain([0]).collect();
    assert_eq!(lookup(&long), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(DEPTH_MAX, 8);
}

#[test]
fn prompt_lookup_ends_where_a_remembered_reply_ends() {
    let tree = drafted(&mut PromptLookup, &[1, 2, 3, SEPARATOR, 1, 2, 4], &[1]);
    assert_eq!(chain(&tree), [2, 3]);
}

#[test]
fn suffix_decoding_grows_by_frequency() {
    // After 1 came 2, 2 and 3; no longer suffix has occurred.
    let tree = drafted(&mut SuffixTree, &[], &[1, 2, 1, 2, 1, 3, 1]);
    let wanted: [&[u32]; 10] = [
        &[2],
        &[2, 1],
        &[2, 1, 2],
        &[2, 1, 2, 1],
        &[2, 1, 2, 1, 3],
        &[2, 1, 2, 1, 3, 1],
        &[2, 1, 3],
        &[2, 1, 3, 1],
        &[3],
        &[3, 1],
    ];
    assert_eq!(paths(&tree), wanted);
    // The likelier ones first: 2 and 2 1 with two thirds each.
    assert_eq!(tree.nodes[1..3].iter().map(|n| (n.token, n.depth)).collect::<Vec<_>>(), [(2, 1), (1, 2)]);
}

#[test]
fn suffix_decoding_takes_the_longer_suffix_where_it_promises_more() {
    // After 1: 5 or 6, each a half: 4.5 tokens. After 7 1: 5 for sure: 6 tokens, to the end of the text.
    let tree = drafted(&mut SuffixTree, &[], &[7, 1, 5, 8, 1, 6, 7, 1]);
    assert_eq!(chain(&tree), [5, 8, 1, 6, 7, 1]);
    assert_eq!(drafted(&mut SuffixTree, &[], &[1, 2, 3]).nodes.len(), 1);
}

#[test]
fn without_a_context_nothing_is_drafted() {
    for drafter in [&mut PromptLookup as &mut dyn Drafter, &mut SuffixTree] {
        assert_eq!(drafted(drafter, &[1, 2, 3], &[]), DraftTree::default(), "{}", drafter.name());
    }
}
