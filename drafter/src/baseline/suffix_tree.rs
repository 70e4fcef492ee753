//! Suffix decoding (Oliaro et al. 2024): for each length of the context's suffix, a tree grown greedily by
//! the frequency of what followed its occurrences; the tree with the largest expected acceptance is taken.

use std::collections::BTreeMap;

use fanlight_messages::draft::{DEPTH_MAX, NODES_MAX, SEPARATOR};

use crate::replay::Drafter;
use crate::{DraftTree, History, Node, Visit};

/// Longest suffix that is looked up.
const SUFFIX_MAX: u32 = 32;

/// A tree of at most 31 drafted nodes.
#[derive(Debug, Clone, Default)]
pub struct SuffixTree;

/// A node that may be grown: the score is the product of the relative frequencies on its path.
struct Candidate {
    score: f64,
    token: u32,
    parent: u32,
    depth: u32,
    ends: Vec<u32>,
}

fn children(history: &History, ends: &[u32], score: f64, parent: u32, depth: u32) -> Vec<Candidate> {
    let mut by_token: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for end in ends {
        let token = history.token(end + 1);
        if token != SEPARATOR {
            by_token.entry(token).or_default().push(end + 1);
        }
    }
    by_token
        .into_iter()
        .map(|(token, next)| Candidate {
            score: score * next.len() as f64 / ends.len() as f64,
            token,
            parent,
            depth,
            ends: next,
        })
        .collect()
}

fn grow(history: &History, root_token: u32, ends: &[u32]) -> (f64, Vec<Node>) {
    let mut nodes = vec![Node { token: root_token, ..Node::default() }];
    let mut open = children(history, ends, 1.0, 0, 1);
    let mut expected = 0.0;
    while nodes.len() < NODES_MAX as usize {
        let best = (0..open.len()).max_by(|a, b| open[*a].score.total_cmp(&open[*b].score));
        let Some(best) = best else { break };
        let Candidate { score, token, parent, depth, ends } = open.swap_remove(best);
        expected += score;
        let index = nodes.len() as u32;
        nodes.push(Node { token, parent, depth, ..Node::default() });
        if depth < DEPTH_MAX {
            open.extend(children(history, &ends, score, index, depth + 1));
        }
    }
    (expected, nodes)
}

impl Drafter for SuffixTree {
    fn name(&self) -> &'static str {
        "suffix tree"
    }

    fn draft(&mut self, history: &History) -> DraftTree {
        let Some(root) = history.root() else { return DraftTree::default() };
        let root_token = history.token(root);
        let mut ends: Vec<u32> =
            (history.first()..root).filter(|i| history.token(*i) == root_token).collect();
        let mut best = (0.0, vec![Node { token: root_token, ..Node::default() }]);
        for len in 1..=SUFFIX_MAX {
            if ends.is_empty() {
                break;
            }
            let grown = grow(history, root_token, &ends);
            // A longer suffix with the same score is the better evidence.
            if grown.0 >= best.0 {
                best = grown;
            }
            let back = history.token(root.saturating_sub(len));
            ends.retain(|end| {
                back != SEPARATOR && *end >= history.first() + len && history.token(end - len) == back
            });
        }
        DraftTree { nodes: best.1, match_len: 0 }
    }

    fn learn(&mut self, _tree: &DraftTree, _visits: &[Visit]) {}
}
