//! A draft: tokens that may come next, as a tree below the last token of the context.

use fanlight_messages::draft::{DEPTH_MAX, NODES_MAX, ORDERS};

use crate::Visit;

/// A node of a draft tree. Node 0 is the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Node {
    /// Its token.
    pub token: u32,
    /// Its parent; 0 for the root itself.
    pub parent: u32,
    /// Edges from the root.
    pub depth: u32,
    /// Probability that it is accepted, 0.16 fixed point.
    pub probability: u32,
    /// Matches that passed through it, by order.
    pub through: [u8; ORDERS as usize],
    /// Matches that went on from it, by order.
    pub onward: [u8; ORDERS as usize],
    /// Bit o: the matches of order o + 1 that went on from it disagree.
    pub mixed: u8,
}

/// Nodes in falling probability, so that every prefix of them is a tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DraftTree {
    /// The root and what was drafted below it, at most [`NODES_MAX`].
    pub nodes: Vec<Node>,
    /// Length of the longest match.
    pub match_len: u32,
}

impl DraftTree {
    /// The first `width` nodes, the root included.
    pub fn width(&self, width: u32) -> &[Node] {
        &self.nodes[..self.nodes.len().min(width.clamp(1, NODES_MAX) as usize)]
    }

    /// Expected accepted nodes of a step of `width` nodes, 16.16 fixed point.
    pub fn expected(&self, width: u32) -> u32 {
        self.width(width).iter().skip(1).map(|node| node.probability).sum()
    }

    /// The nodes at which greedy decoding chooses `tokens` in a step of `width` nodes, and what it chooses.
    pub fn visits(&self, width: u32, tokens: &[u32]) -> Vec<Visit> {
        let path = self.walk(width, tokens);
        path.into_iter().zip(tokens).map(|(node, choice)| Visit { node, choice: *choice }).collect()
    }

    /// The nodes that greedy decoding accepts when it goes on with `tokens`, the root first.
    pub fn walk(&self, width: u32, tokens: &[u32]) -> Vec<usize> {
        let nodes = self.width(width);
        let mut path = vec![0];
        for token in tokens.iter().take(DEPTH_MAX as usize) {
            let parent = path[path.len() - 1] as u32;
            let child = (1..nodes.len()).find(|n| nodes[*n].parent == parent && nodes[*n].token == *token);
            let Some(child) = child else { break };
            path.push(child);
        }
        path
    }
}
