//! From matches to a tree: their continuations form a trie whose nodes are weighted by mixing the orders.
//!
//! At a node, the matches whose match length (grown by the node's depth) is at least `o` are the evidence of
//! order `o`. From the highest order down, each takes its reliability's share of the probability that is
//! left and deals it to the tokens that its matches go on with:
//!
//! ```text
//! left = 1;  for o = 8..1:  share = left · r(o);  P(t) += share · n_o(t) / c_o;  left -= share
//! ```

use fanlight_messages::draft::{DEPTH_MAX, NODES_MAX, ORDERS, SEPARATOR};

use crate::reliability::ONE;
use crate::{DraftTree, Evidence, History, Match, Node, Reliabilities};

const DEPTHS: usize = DEPTH_MAX as usize;

/// The continuation of a match, and the first match that continues alike down to each depth.
#[derive(Debug, Clone, Copy)]
struct Branch {
    len: u32,
    tokens: [u32; DEPTHS],
    first: [u32; DEPTHS],
}

impl Branch {
    /// Match length at `depth` edges below the root, as an order.
    fn order_at(&self, depth: usize) -> u32 {
        (self.len + depth as u32).min(ORDERS)
    }
}

/// What the matches of a node say.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    onward: [u8; ORDERS as usize],
    through: [u8; ORDERS as usize],
    mixed: u8,
}

/// The tree below the last token of `history`, from its `matches`, at most `room` deep.
pub fn draft(history: &History, matches: &[Match], reliabilities: &Reliabilities, room: u32) -> DraftTree {
    let Some(root) = history.root() else { return DraftTree::default() };
    let depths = room.min(DEPTH_MAX) as usize;
    let branches = branches(history, matches, root);
    let mut keys = Vec::new();
    for (index, branch) in branches.iter().enumerate() {
        let mut probability = ONE;
        for depth in 0..depths {
            if branch.tokens[depth] == SEPARATOR {
                break;
            }
            let counts = count(&branches, index, depth);
            probability = (probability * conditional(&counts, reliabilities)) >> 16;
            if branch.first[depth] as usize == index && probability > 0 {
                keys.push(key(probability, depth, index));
            }
        }
    }
    keys.sort_unstable_by(|a, b| b.cmp(a));
    keys.truncate(NODES_MAX as usize - 1);
    emit(history.token(root), &branches, &keys, depths)
}

/// Ranks nodes: more probable first, then shallower, then of a better match.
fn key(probability: u32, depth: usize, branch: usize) -> u32 {
    (probability << 9) | ((7 - depth as u32) << 6) | (63 - branch as u32)
}

fn branches(history: &History, matches: &[Match], root: u32) -> Vec<Branch> {
    let mut branches: Vec<Branch> = Vec::with_capacity(matches.len());
    for (index, found) in matches.iter().enumerate() {
        let mut branch = Branch { len: found.len, tokens: [SEPARATOR; DEPTHS], first: [0; DEPTHS] };
        for depth in 0..DEPTHS {
            let at = found.index + 1 + depth as u32;
            // Past the end of the context a continuation repeats itself, as a Lempel-Ziv copy does.
            let token = if at > root { branch.tokens[(at - root - 1) as usize] } else { history.token(at) };
            if token == SEPARATOR {
                break;
            }
            branch.tokens[depth] = token;
        }
        for depth in 0..DEPTHS {
            let alike = |other: &Branch| {
                other.tokens[depth] == branch.tokens[depth]
                    && (depth == 0 || other.first[depth - 1] == branch.first[depth - 1])
            };
            branch.first[depth] = branches.iter().position(alike).unwrap_or(index) as u32;
        }
        branches.push(branch);
    }
    branches
}

/// What the matches at the parent of (branch, depth) say, and how many go through that node.
fn count(branches: &[Branch], index: usize, depth: usize) -> Counts {
    let of = &branches[index];
    let mut counts = Counts::default();
    let mut leader = None;
    for branch in branches {
        let is_sibling = depth == 0 || branch.first[depth - 1] == of.first[depth - 1];
        if !is_sibling || branch.tokens[depth] == SEPARATOR {
            continue;
        }
        // Matches come longest first, so those of a higher order come before those of a lower one.
        let leader = *leader.get_or_insert(branch.first[depth]);
        for order in 0..branch.order_at(depth) as usize {
            counts.onward[order] += 1;
            counts.through[order] += u8::from(branch.first[depth] == of.first[depth]);
            counts.mixed |= u8::from(branch.first[depth] != leader) << order;
        }
    }
    counts
}

/// Probability of a child among its siblings, 0.16.
fn conditional(counts: &Counts, reliabilities: &Reliabilities) -> u32 {
    let (mut left, mut probability) = (ONE, 0);
    for order in (0..ORDERS as usize).rev() {
        let onward = u32::from(counts.onward[order]);
        if onward > 0 {
            let evidence = Evidence::of(onward, counts.mixed, order);
            let share = (left * reliabilities.get(order, evidence)) >> 16;
            probability += share * u32::from(counts.through[order]) / onward;
            left -= share;
        }
    }
    probability
}

fn emit(root_token: u32, branches: &[Branch], keys: &[u32], depths: usize) -> DraftTree {
    let place = |key: &u32| (63 - (key & 63) as usize, 7 - (key >> 6 & 7) as usize);
    let mut nodes = vec![Node { token: root_token, probability: ONE, ..Node::default() }];
    for key in keys {
        let (branch, depth) = place(key);
        let of = &branches[branch];
        let parent = match depth.checked_sub(1) {
            None => 0,
            Some(above) => {
                let wanted = (of.first[above] as usize, above);
                1 + keys.iter().position(|key| place(key) == wanted).unwrap_or(0)
            }
        };
        nodes.push(Node {
            token: of.tokens[depth],
            parent: parent as u32,
            depth: depth as u32 + 1,
            probability: key >> 9,
            through: count(branches, branch, depth).through,
            ..Node::default()
        });
    }
    for (index, node) in nodes.iter_mut().enumerate() {
        // Any branch through the node that goes on tells what its children's evidence is.
        let depth = node.depth as usize;
        let is_through = |b: &Branch| match index.checked_sub(1) {
            None => true,
            Some(k) => b.first[depth - 1] as usize == place(&keys[k]).0,
        };
        let goes_on = |b: &Branch| depth < depths && b.tokens[depth] != SEPARATOR && is_through(b);
        if let Some(child) = branches.iter().position(goes_on) {
            let counts = count(branches, child, depth);
            (node.onward, node.mixed) = (counts.onward, counts.mixed);
        }
    }
    DraftTree { nodes, match_len: branches.first().map_or(0, |b| b.len) }
}
