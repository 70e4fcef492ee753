//! Where the end of the context occurred before.

use fanlight_messages::draft::{MATCHES_MAX, ORDERS, SCAN_KEPT, SCAN_POSITIONS, SEPARATOR};

use crate::History;

/// An earlier occurrence of the context's last tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// Index of its last token in the history.
    pub index: u32,
    /// Tokens that agree, 1 to [`ORDERS`].
    pub len: u32,
}

impl Match {
    /// Ranks matches: longer first, then later. Unique by index.
    pub fn key(self) -> u32 {
        (self.len << 16) | self.index
    }

    /// The match of a key.
    pub fn from_key(key: u32) -> Self {
        Self { index: key & 0xffff, len: key >> 16 }
    }
}

/// The best matches of the context's end, best first, at most [`MATCHES_MAX`]. Of each stretch of
/// [`SCAN_POSITIONS`] indices only the best [`SCAN_KEPT`] count: a workgroup of the scan kernel each.
pub fn find_matches(history: &History) -> Vec<Match> {
    let Some(root) = history.root() else { return Vec::new() };
    let mut kept: Vec<u32> = Vec::new();
    for stretch in history.first() / SCAN_POSITIONS..=root / SCAN_POSITIONS {
        let start = (stretch * SCAN_POSITIONS).max(history.first());
        let end = ((stretch + 1) * SCAN_POSITIONS).min(root);
        let keys = (start..end).filter_map(|index| {
            let len = match_len(history, index, root);
            (len > 0).then(|| Match { index, len }.key())
        });
        kept.extend(best(keys.collect(), SCAN_KEPT));
    }
    best(kept, MATCHES_MAX).into_iter().map(Match::from_key).collect()
}

fn best(mut keys: Vec<u32>, count: u32) -> Vec<u32> {
    keys.sort_unstable_by(|a, b| b.cmp(a));
    keys.truncate(count as usize);
    keys
}

fn match_len(history: &History, index: u32, root: u32) -> u32 {
    let agrees = |back: u32| {
        let token = history.token(root - back);
        index >= history.first() + back && token != SEPARATOR && history.token(index - back) == token
    };
    (0..ORDERS).take_while(|back| agrees(*back)).count() as u32
}
