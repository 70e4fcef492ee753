//! What a walk teaches, against the same online step in f64.

use fanlight_drafter::{DraftTree, Node, Reliabilities, Visit};
use fanlight_messages::draft::{FLOOR, MATCHES_MAX, ORDERS, RATE_SHIFT};
use proptest::prelude::*;

const ONE: f64 = 65_536.0;
const ORDER_COUNT: usize = ORDERS as usize;

/// What one visit makes of the reliabilities: each order, from the lowest up, is moved by a part of its
/// distance to the posterior probability that it was this order's share that told the choice.
fn step(
    reliabilities: &[[f64; 3]; ORDER_COUNT],
    node: &Node,
    child: Option<&Node>,
) -> [[f64; 3]; ORDER_COUNT] {
    let mut next = *reliabilities;
    let mut below = f64::from(FLOOR) / ONE;
    for order in 0..ORDER_COUNT {
        let onward = f64::from(node.onward[order]);
        if onward > 0.0 {
            let kind = match (node.mixed >> order & 1, node.onward[order]) {
                (1, _) => 2,
                (_, 1) => 0,
                _ => 1,
            };
            let reliability = reliabilities[order][kind];
            let own = reliability * child.map_or(0.0, |c| f64::from(c.through[order])) / onward;
            let rest = (1.0 - reliability) * below;
            let posterior = if own + rest > 0.0 { own / (own + rest) } else { 0.0 };
            next[order][kind] += (posterior - reliability) / f64::from(1u32 << RATE_SHIFT);
            below = own + rest;
        }
    }
    next
}

/// A root and one child, of which any number of matches speak; a child has no more of them than go on.
fn pair() -> impl Strategy<Value = DraftTree> {
    let counts = prop::array::uniform8((0..=MATCHES_MAX as u8, 0..=MATCHES_MAX as u8));
    (counts, any::<u8>()).prop_map(|(counts, mixed)| {
        let onward = counts.map(|(a, b)| a.max(b));
        let through = counts.map(|(a, b)| a.min(b));
        let root = Node { token: 1, onward, mixed, ..Node::default() };
        let child = Node { token: 2, depth: 1, through, onward: through, ..Node::default() };
        DraftTree { nodes: vec![root, child], match_len: 1 }
    })
}

fn reliabilities() -> impl Strategy<Value = Reliabilities> {
    let end = prop_oneof![3 => 0u32..=0xffff, 1 => Just(0), 1 => Just(0xffff)];
    prop::array::uniform8(prop::array::uniform3(end)).prop_map(Reliabilities)
}

proptest! {
    #[test]
    fn a_visit_moves_each_order_towards_its_posterior(
        tree in pair(),
        // Near 0 and 1 the posterior is a quotient of small integers: the next test has those.
        start in prop::array::uniform8(prop::array::uniform3(3_000u32..60_000)),
        choice in 2u32..4,
    ) {
        let mut learned = Reliabilities(start);
        learned.learn(&tree, &[Visit { node: 0, choice }]);
        let child = (choice == 2).then(|| &tree.nodes[1]);
        let wanted = step(&start.map(|row| row.map(|r| f64::from(r) / ONE)), &tree.nodes[0], child);
        for (order, (learned, wanted)) in learned.0.iter().zip(wanted).enumerate() {
            for (kind, (learned, wanted)) in learned.iter().zip(wanted).enumerate() {
                let off = f64::from(*learned) - ONE * wanted;
                prop_assert!(off.abs() < 80.0, "order {order}, kind {kind}: off by {off}");
            }
        }
    }

    #[test]
    fn learning_stays_within_its_range(
        trees in prop::collection::vec(pair(), 1..40),
        start in reliabilities(),
        visits in prop::collection::vec((0usize..2, 0u32..4), 1..10),
    ) {
        let mut learned = start;
        let visits: Vec<Visit> = visits.into_iter().map(|(node, choice)| Visit { node, choice }).collect();
        for tree in trees.iter().cycle().take(200) {
            learned.learn(tree, &visits);
            prop_assert!(learned.0.iter().flatten().all(|r| *r <= 0xffff), "{learned:?}");
        }
    }
}

fn single(order: usize) -> DraftTree {
    let mut counts = [0; ORDER_COUNT];
    counts[..=order].fill(1);
    let root = Node { onward: counts, ..Node::default() };
    let child = Node { token: 2, depth: 1, through: counts, ..Node::default() };
    DraftTree { nodes: vec![root, child], match_len: order as u32 + 1 }
}

#[test]
fn what_is_always_right_becomes_trusted_and_what_is_never_right_does_not() {
    let tree = single(0);
    let mut learned = Reliabilities::default();
    for _ in 0..400 {
        learned.learn(&tree, &[Visit { node: 0, choice: 2 }]);
    }
    assert!(learned.0[0][0] > 64_000, "{learned:?}");
    for _ in 0..400 {
        learned.learn(&tree, &[Visit { node: 0, choice: 3 }]);
    }
    assert!(learned.0[0][0] < 1_000, "{learned:?}");
    // Nothing else was seen, so nothing else has moved.
    assert_eq!(learned.0[1..], Reliabilities::default().0[1..]);
    assert_eq!(learned.0[0][1..], Reliabilities::default().0[0][1..]);
}

#[test]
fn a_higher_order_that_adds_nothing_gets_no_credit_for_what_the_lower_ones_told() {
    // Both orders say the same, so each is moved by its share of the credit, not by the success itself.
    let tree = single(1);
    let mut learned = Reliabilities([[0x8000; 3]; ORDER_COUNT]);
    learned.0[0][0] = 0xffff;
    learned.learn(&tree, &[Visit { node: 0, choice: 2 }]);
    let moved = i64::from(learned.0[1][0]) - 0x8000;
    assert!(moved.abs() < 4, "half the credit at a half: it stays, but moved by {moved}");
}

#[test]
fn no_visit_teaches_nothing() {
    let mut learned = Reliabilities::default();
    learned.learn(&single(3), &[]);
    assert_eq!(learned, Reliabilities::default());
}
