//! Draft trees against the mixture they stand for, computed in f64 from the continuations of the matches.

use fanlight_drafter::{DraftTree, Evidence, History, Match, Reliabilities, draft, find_matches};
use fanlight_messages::draft::{DEPTH_MAX, EVIDENCES, NODES_MAX, ORDERS, SEPARATOR};
use proptest::prelude::*;

/// One, in the fixed point of probabilities.
const ONE: f64 = 65_536.0;
/// Each depth rounds down once for each order and once more, and 0xffff stands for one.
const ROUNDING_PER_DEPTH: f64 = 2.0 * ORDERS as f64 + 2.0;

/// The matches, each with up to eight tokens that follow it; a copy that runs past the end repeats itself.
struct Mixture {
    branches: Vec<(Match, Vec<u32>)>,
    reliabilities: Reliabilities,
}

/// The matches of an order at a node: how many go on, how many of them with each token.
#[derive(Default)]
struct Deal {
    onward: u32,
    by_token: std::collections::BTreeMap<u32, u32>,
}

impl Mixture {
    fn new(history: &History, matches: &[Match], reliabilities: &Reliabilities) -> Self {
        let root = history.root().unwrap();
        let follow = |found: &Match| {
            let mut tokens = Vec::new();
            // The text between a match and the end, over and over.
            let mut source = (found.index + 1..=root).cycle().map(|at| history.token(at));
            while tokens.len() < DEPTH_MAX as usize {
                match source.next() {
                    Some(token) if token != SEPARATOR => tokens.push(token),
                    _ => break,
                }
            }
            (*found, tokens)
        };
        Self { branches: matches.iter().map(follow).collect(), reliabilities: reliabilities.clone() }
    }

    /// What the matches of an order (from 0) at the node of `path` say.
    fn deal(&self, path: &[u32], order: usize) -> Deal {
        let mut deal = Deal::default();
        for (found, tokens) in &self.branches {
            let grown = (found.len as usize + path.len()).min(ORDERS as usize);
            if grown > order && tokens.len() > path.len() && tokens.starts_with(path) {
                deal.onward += 1;
                *deal.by_token.entry(tokens[path.len()]).or_default() += 1;
            }
        }
        deal
    }

    /// Probability of `token` after `path`, by the formula that the merge module gives.
    fn conditional(&self, path: &[u32], token: u32) -> f64 {
        let (mut left, mut probability) = (1.0, 0.0);
        for order in (0..ORDERS as usize).rev() {
            let deal = self.deal(path, order);
            if deal.onward == 0 {
                continue;
            }
            let kind = match (deal.onward, deal.by_token.len()) {
                (1, _) => 0,
                (_, 1) => 1,
                _ => 2,
            };
            let share = left * f64::from(self.reliabilities.0[order][kind]) / ONE;
            let count = deal.by_token.get(&token).copied().unwrap_or(0);
            probability += share * f64::from(count) / f64::from(deal.onward);
            left -= share;
        }
        probability
    }

    fn probability(&self, path: &[u32]) -> f64 {
        (0..path.len()).map(|depth| self.conditional(&path[..depth], path[depth])).product()
    }

    /// Every path that some match follows.
    fn paths(&self) -> std::collections::BTreeSet<Vec<u32>> {
        let of = |tokens: &Vec<u32>| (1..=tokens.len()).map(|n| tokens[..n].to_vec()).collect::<Vec<_>>();
        self.branches.iter().flat_map(|(_, tokens)| of(tokens)).collect()
    }
}

fn path_of(tree: &DraftTree, mut node: usize) -> Vec<u32> {
    let mut path = Vec::new();
    while node != 0 {
        path.insert(0, tree.nodes[node].token);
        node = tree.nodes[node].parent as usize;
    }
    path
}

fn check_mixture(tree: &DraftTree, mixture: &Mixture, room: u32) -> Result<(), TestCaseError> {
    let rounding = |depth: usize| ROUNDING_PER_DEPTH * depth as f64;
    for (n, node) in tree.nodes.iter().enumerate() {
        let path = path_of(tree, n);
        prop_assert_eq!(path.len(), node.depth as usize);
        let wanted = ONE * mixture.probability(&path);
        let off = wanted - f64::from(node.probability);
        prop_assert!((-1.0..=rounding(path.len()) + 1.0).contains(&off), "{path:?}: {off} below {wanted}");
        for order in 0..ORDERS as usize {
            let deal = mixture.deal(&path, order);
            let goes_on = path.len() < room.min(DEPTH_MAX) as usize;
            let onward = if goes_on { deal.onward } else { 0 };
            prop_assert_eq!(u32::from(node.onward[order]), onward, "{:?}, order {}", &path, order);
            let is_mixed = goes_on && deal.by_token.len() > 1;
            prop_assert_eq!(node.mixed >> order & 1 == 1, is_mixed, "{:?}, order {}", &path, order);
            if let Some((last, above)) = path.split_last() {
                let through = mixture.deal(above, order).by_token.get(last).copied().unwrap_or(0);
                prop_assert_eq!(u32::from(node.through[order]), through, "{:?}, order {}", &path, order);
            }
        }
    }
    // What was left out is no better than what was taken, and nothing is left out while there is room.
    let taken: Vec<Vec<u32>> = (0..tree.nodes.len()).map(|n| path_of(tree, n)).collect();
    let is_full = tree.nodes.len() == NODES_MAX as usize;
    let least = tree.nodes.last().map_or(0, |node| if is_full { node.probability } else { 0 });
    for path in mixture.paths() {
        if path.len() <= room as usize && !taken.contains(&path) {
            let probability = ONE * mixture.probability(&path);
            let bound = f64::from(least) + rounding(path.len()) + 1.0;
            prop_assert!(probability <= bound, "{path:?} has {probability}, {bound} at most may be left out");
        }
    }
    Ok(())
}

fn check_form(tree: &DraftTree) -> Result<(), TestCaseError> {
    prop_assert!((1..=NODES_MAX as usize).contains(&tree.nodes.len()));
    for (n, node) in tree.nodes.iter().enumerate().skip(1) {
        prop_assert!(node.probability <= tree.nodes[n - 1].probability, "node {n} is out of order");
        prop_assert!((node.parent as usize) < n, "node {n} comes before its parent");
        prop_assert_eq!(node.depth, tree.nodes[node.parent as usize].depth + 1);
        let twin = tree.nodes[1..n].iter().find(|s| s.parent == node.parent && s.token == node.token);
        prop_assert_eq!(twin, None, "node {} is drafted twice", n);
    }
    for width in 0..=NODES_MAX + 1 {
        let len = tree.nodes.len().min(width.clamp(1, NODES_MAX) as usize);
        prop_assert_eq!(tree.width(width), &tree.nodes[..len]);
        let mut sum = 0;
        for node in &tree.nodes[1..len] {
            sum += node.probability;
        }
        prop_assert_eq!(tree.expected(width), sum);
    }
    Ok(())
}

fn reliabilities() -> impl Strategy<Value = Reliabilities> {
    let row = prop::array::uniform3(0u32..=0xffff);
    let learned = prop::array::uniform8(row).prop_map(Reliabilities);
    prop_oneof![Just(Reliabilities::default()), learned]
}

/// Texts with repeats: phrases over few ids.
fn text() -> impl Strategy<Value = Vec<u32>> {
    (1u32..7).prop_flat_map(|vocabulary| prop::collection::vec(0..vocabulary, 2..120))
}

proptest! {
    #[test]
    fn a_tree_is_the_best_of_the_mixture(
        memory in text(),
        context in text(),
        separator in prop::option::of(0usize..100),
        reliabilities in reliabilities(),
        room in 0u32..10,
    ) {
        let mut memory = memory;
        if let Some(at) = separator {
            let at = at % memory.len();
            memory[at] = SEPARATOR;
        }
        let mut history = History::new(&memory);
        history.extend(&context);
        let matches = find_matches(&history);
        let tree = draft(&history, &matches, &reliabilities, room);
        prop_assert_eq!(tree.nodes[0].token, *context.last().unwrap());
        prop_assert_eq!(tree.match_len, matches.first().map_or(0, |m| m.len));
        prop_assert!(tree.nodes.iter().all(|node| node.depth <= room.min(DEPTH_MAX)));
        check_form(&tree)?;
        check_mixture(&tree, &Mixture::new(&history, &matches, &reliabilities), room)?;
    }

    #[test]
    fn a_walk_follows_the_text_as_far_as_the_tree_goes(
        context in text(),
        next in prop::collection::vec(0u32..7, 0..12),
        width in 0u32..40,
    ) {
        let mut history = History::new(&[]);
        history.extend(&context);
        let tree = draft(&history, &find_matches(&history), &Reliabilities::default(), u32::MAX);
        let walked = tree.walk(width, &next);
        let paths: Vec<Vec<u32>> = (0..tree.width(width).len()).map(|n| path_of(&tree, n)).collect();
        let longest = paths.iter().filter(|path| next.starts_with(path)).max_by_key(|path| path.len());
        prop_assert_eq!(walked.len(), longest.unwrap().len() + 1);
        for (depth, node) in walked.iter().enumerate() {
            prop_assert_eq!(&paths[*node], &next[..depth]);
        }
    }
}

#[test]
fn without_a_match_a_tree_is_its_root() {
    let empty = History::new(&[1, 2]);
    assert_eq!(draft(&empty, &[], &Reliabilities::default(), 8), DraftTree::default());
    let mut history = History::new(&[]);
    history.extend(&[1, 2, 3]);
    let tree = draft(&history, &find_matches(&history), &Reliabilities::default(), 8);
    assert_eq!((tree.nodes.len(), tree.nodes[0].token, tree.match_len), (1, 3, 0));
    assert_eq!(tree.expected(32), 0);
}

#[test]
fn a_repeat_past_the_end_of_the_text_goes_on_repeating() {
    let mut history = History::new(&[]);
    history.extend(&[5, 6, 7, 5, 6, 7]);
    let tree = draft(&history, &find_matches(&history), &Reliabilities::default(), 8);
    let walked = tree.walk(32, &[5, 6, 7, 5, 6, 7, 5, 6, 7]);
    assert_eq!(walked.len(), 1 + DEPTH_MAX as usize);
}

#[test]
fn evidence_is_by_number_and_agreement() {
    assert_eq!(EVIDENCES, 3);
    assert_eq!(Evidence::of(1, 0, 0), Evidence::Single);
    assert_eq!(Evidence::of(2, 0b01, 1), Evidence::Agreeing);
    assert_eq!(Evidence::of(2, 0b10, 1), Evidence::Mixed);
}
