//! How far each order is to be trusted, learned from what the accept walk saw.

use fanlight_messages::draft::{EVIDENCES, FLOOR, ORDERS, RATE_SHIFT, RELIABILITIES};

use crate::DraftTree;

/// One, in the 0.16 fixed point of reliabilities and probabilities: the largest value, so that a product of
/// two fits 32 bits.
pub(crate) const ONE: u32 = 0xffff;

/// What the matches of an order look like at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// A single match.
    Single,
    /// Several, and all go on alike.
    Agreeing,
    /// Several that go on differently.
    Mixed,
}

impl Evidence {
    /// Of an order (from 0) with `onward` matches and the disagreement mask of the node.
    pub fn of(onward: u32, mixed: u8, order: usize) -> Self {
        match () {
            () if mixed >> order & 1 == 1 => Self::Mixed,
            () if onward == 1 => Self::Single,
            () => Self::Agreeing,
        }
    }
}

/// Probability, by order and evidence, that the next token is one that the matches of that order say: 0.16.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reliabilities(pub [[u32; EVIDENCES as usize]; ORDERS as usize]);

/// A node that the accept walk visited, and the token that was chosen there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// Which node.
    pub node: usize,
    /// What came next.
    pub choice: u32,
}

impl Default for Reliabilities {
    fn default() -> Self {
        Self(RELIABILITIES)
    }
}

impl Reliabilities {
    /// Of an order (from 0).
    pub fn get(&self, order: usize, evidence: Evidence) -> u32 {
        self.0[order][evidence as usize]
    }

    /// Learns from the nodes that a walk visited.
    pub fn learn(&mut self, tree: &DraftTree, visits: &[Visit]) {
        for visit in visits {
            let node = &tree.nodes[visit.node];
            let child =
                tree.nodes.iter().skip(1).find(|n| n.parent == visit.node as u32 && n.token == visit.choice);
            // From the lowest order up: what the orders below make of the choice, the order's own part in
            // it, and the posterior probability that it was this order's to tell (online EM).
            let mut below = FLOOR;
            for order in 0..ORDERS as usize {
                let onward = u32::from(node.onward[order]);
                if onward == 0 {
                    continue;
                }
                let through = child.map_or(0, |child| u32::from(child.through[order]));
                let slot = &mut self.0[order][Evidence::of(onward, node.mixed, order) as usize];
                let own = (*slot * (through * ONE / onward)) >> 16;
                let rest = ((ONE - *slot) * below) >> 16;
                let seen = ((own << 15) / (own + rest).max(1)) << 1;
                // Moves towards what was seen, in steps that cannot leave 0..=ONE.
                *slot = *slot - (*slot >> RATE_SHIFT) + (seen.min(ONE) >> RATE_SHIFT);
                below = own + rest;
            }
        }
    }
}
