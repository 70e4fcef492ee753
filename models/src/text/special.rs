//! Pieces that are found in text before anything else: control and user-defined ones, longest first.

use super::error::TokenizerError;
use super::vocabulary::{PieceKind, Vocabulary};
use std::ops::Range;

/// Longest text of a special piece: real ones have under 64 bytes, and matching costs text length times this.
pub const SPECIAL_LEN_MAX: usize = 256;

#[derive(Debug, Default)]
struct Node {
    /// By byte, sorted.
    children: Vec<(u8, u32)>,
    piece: Option<u32>,
}

/// A trie over the texts of special pieces.
#[derive(Debug)]
pub(super) struct SpecialPieces {
    nodes: Vec<Node>,
}

impl Default for SpecialPieces {
    fn default() -> Self {
        Self { nodes: vec![Node::default()] }
    }
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fragment {
    /// Ordinary text, never empty.
    Text(Range<usize>),
    /// A special piece and where it stands.
    Piece(u32, Range<usize>),
}

impl SpecialPieces {
    /// Collects the control, unknown and user-defined pieces that have text.
    pub fn new(vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        let mut pieces = Self::default();
        for (id, bytes, kind) in vocabulary.pieces() {
            let special = matches!(kind, PieceKind::Control | PieceKind::Unknown | PieceKind::UserDefined);
            if special && bytes.len() > SPECIAL_LEN_MAX {
                let (id, found, limit) = (id as usize, bytes.len(), SPECIAL_LEN_MAX);
                return Err(TokenizerError::SpecialTooLong { id, found, limit });
            }
            if special {
                pieces.insert(bytes, id);
            }
        }
        Ok(pieces)
    }

    /// Adds a piece, unless it has no text, is not UTF-8 and so cannot be found in text, or is there already.
    pub fn insert(&mut self, bytes: &[u8], id: u32) -> bool {
        if bytes.is_empty() || std::str::from_utf8(bytes).is_err() {
            return false;
        }
        let mut at = 0;
        for &byte in bytes {
            let fresh = self.nodes.len() as u32;
            let children = &mut self.nodes[at].children;
            at = match children.binary_search_by_key(&byte, |child| child.0) {
                Ok(found) => children[found].1 as usize,
                Err(place) => {
                    children.insert(place, (byte, fresh));
                    self.nodes.push(Node::default());
                    fresh as usize
                }
            };
        }
        *self.nodes[at].piece.get_or_insert(id) == id
    }

    /// The special pieces that begin at `start`, shortest first, with their ends.
    pub fn starting_at(&self, text: &[u8], start: usize) -> impl Iterator<Item = (u32, usize)> {
        let mut at = Some(0_usize);
        text[start..]
            .iter()
            .enumerate()
            .map_while(move |(index, &byte)| {
                let children = &self.nodes[at?].children;
                at = children
                    .binary_search_by_key(&byte, |child| child.0)
                    .ok()
                    .map(|found| children[found].1 as usize);
                at.map(|node| (node, start + index + 1))
            })
            .filter_map(|(node, end)| Some((self.nodes[node].piece?, end)))
    }

    /// Cuts `text` into ordinary text and the longest special pieces that `accept` allows, from left to
    /// right.
    pub fn partition(&self, text: &str, accept: impl Fn(u32, Range<usize>) -> bool) -> Vec<Fragment> {
        let bytes = text.as_bytes();
        let mut fragments = Vec::new();
        let (mut done, mut at) = (0, 0);
        while at < bytes.len() {
            let longest = self.starting_at(bytes, at).filter(|&(id, end)| accept(id, at..end)).last();
            let Some((id, end)) = longest else {
                at += 1;
                continue;
            };
            if at > done {
                fragments.push(Fragment::Text(done..at));
            }
            fragments.push(Fragment::Piece(id, at..end));
            (done, at) = (end, end);
        }
        if done < bytes.len() {
            fragments.push(Fragment::Text(done..bytes.len()));
        }
        fragments
    }
}
