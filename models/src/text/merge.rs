//! The merge loop that byte-pair and SentencePiece encoders share.
//!
//! Neighbours are merged best pair first, left-most among equals. A heap holds the candidates, so a piece of
//! n symbols takes O(n log n) however its merges fall.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A stretch of the text being encoded and, if it is in the vocabulary, its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Symbol {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Id of the piece, if the stretch is one.
    pub id: Option<u32>,
}

struct Candidate<P> {
    priority: P,
    left: usize,
    right: usize,
    end: usize,
    id: u32,
}

impl<P: Ord> Ord for Candidate<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.priority.cmp(&other.priority).then(other.left.cmp(&self.left)).then(other.end.cmp(&self.end))
    }
}

impl<P: Ord> PartialOrd for Candidate<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P: Ord> PartialEq for Candidate<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P: Ord> Eq for Candidate<P> {}

/// Marks the ends of the list of symbols, and symbols that were merged into another.
const NONE: usize = usize::MAX;

/// Merges `symbols`, which cover the text from left to right, until `join` accepts no neighbours.
///
/// `join` says what two neighbours become and how soon: the largest priority goes first.
pub(super) fn merge<P: Ord>(symbols: &mut Vec<Symbol>, join: impl Fn(&Symbol, &Symbol) -> Option<(P, u32)>) {
    let count = symbols.len();
    let mut next: Vec<usize> = (1..=count).map(|i| if i == count { NONE } else { i }).collect();
    let mut previous: Vec<usize> = (0..count).map(|i| i.checked_sub(1).unwrap_or(NONE)).collect();
    let candidate = |symbols: &[Symbol], left: usize, right: usize| {
        let (priority, id) = join(&symbols[left], &symbols[right])?;
        Some(Candidate { priority, left, right, end: symbols[right].end, id })
    };
    let mut heap: BinaryHeap<Candidate<P>> =
        (1..count).filter_map(|right| candidate(symbols, right - 1, right)).collect();
    let mut alive = vec![true; count];
    while let Some(Candidate { left, right, end, id, .. }) = heap.pop() {
        // A candidate is stale once either side has been merged or has grown.
        if !alive[left] || !alive[right] || next[left] != right || symbols[right].end != end {
            continue;
        }
        symbols[left].end = end;
        symbols[left].id = Some(id);
        alive[right] = false;
        next[left] = next[right];
        if next[left] != NONE {
            previous[next[left]] = left;
            heap.extend(candidate(symbols, left, next[left]));
        }
        if previous[left] != NONE {
            heap.extend(candidate(symbols, previous[left], left));
        }
    }
    let mut kept = alive.into_iter();
    symbols.retain(|_| kept.next().unwrap_or(false));
}
