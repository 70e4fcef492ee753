//! Prompt lookup (Saxena 2023): the continuation of the first earlier occurrence of the last three tokens,
//! else of the last two, else of the last one.

use fanlight_messages::draft::{DEPTH_MAX, SEPARATOR};

use crate::replay::Drafter;
use crate::{DraftTree, History, Node, Visit};

/// Longest n-gram looked up, as published.
const NGRAM_MAX: u32 = 3;

/// A chain of at most eight tokens.
#[derive(Debug, Clone, Default)]
pub struct PromptLookup;

impl Drafter for PromptLookup {
    fn name(&self) -> &'static str {
        "prompt lookup"
    }

    fn draft(&mut self, history: &History) -> DraftTree {
        let Some(root) = history.root() else { return DraftTree::default() };
        let mut nodes = vec![Node { token: history.token(root), ..Node::default() }];
        let found = (1..=NGRAM_MAX).rev().find_map(|len| {
            let matches = |end: &u32| {
                (0..len).all(|back| {
                    let token = history.token(root - back);
                    token != SEPARATOR && history.token(end - back) == token
                })
            };
            (history.first() + len - 1..root).find(matches)
        });
        let tokens = found.into_iter().flat_map(|end| (end + 1..=root).map(|at| history.token(at)));
        for token in tokens.take_while(|token| *token != SEPARATOR).take(DEPTH_MAX as usize) {
            let parent = nodes.len() as u32 - 1;
            nodes.push(Node { token, parent, depth: parent + 1, ..Node::default() });
        }
        DraftTree { nodes, match_len: 0 }
    }

    fn learn(&mut self, _tree: &DraftTree, _visits: &[Visit]) {}
}
