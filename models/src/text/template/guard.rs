//! Keeps control text that people, tools and pages supply apart from the template's own.
//!
//! A template is rendered into one text, in which both look alike, and it may change what it is given: cut
//! it, join it, lower its letters. So supplied text is marked by where it comes from, before rendering. A
//! character that occurs nowhere else (the sentinel) is put behind every supplied character that begins a
//! protected piece, before every one that ends one, in either case, and at both ends of every supplied text.
//! In the output the sentinels are removed and their places remembered as guards, and no protected piece is
//! recognised across a guard: its first and its last character, and all between, come from the template.
//! All other text encodes as if it had never been marked.
//!
//! Protected are all control and unknown pieces, and those user-defined ones that the template names: it uses
//! them as structure. User-defined words and white space are not protected: they are only a way to write
//! text, and hold no markup.

use super::super::special::{Fragment, SpecialPieces};
use super::super::tokenizer::{TokenId, Tokenizer};
use super::super::vocabulary::PieceKind;
use super::error::TemplateError;
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

/// Private-use characters, from which sentinels are taken.
const SENTINELS: [std::ops::RangeInclusive<u32>; 3] =
    [0xE000..=0xF8FF, 0xF_0000..=0xF_FFFD, 0x10_0000..=0x10_FFFD];

/// The pieces that only scaffolding may produce.
#[derive(Debug)]
pub(super) struct Guard {
    protected: SpecialPieces,
    ids: BTreeSet<TokenId>,
    /// Characters that protected pieces begin and end with, in either case.
    firsts: BTreeSet<char>,
    lasts: BTreeSet<char>,
}

/// Which supplied texts carry marks at their ends. A template that compares such a text with one of its own
/// no longer finds them equal, so fewer are marked where that changes what it prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// All.
    Everywhere,
    /// Those of messages, not those of tool descriptions.
    Messages,
    /// None: only the characters that pieces begin or end with are marked.
    Nowhere,
}

impl Guard {
    /// For a template with this source.
    pub fn new(tokenizer: &Tokenizer, source: &str) -> Self {
        let is_markup = |c: char| !c.is_alphanumeric() && !c.is_whitespace();
        let names = |bytes: &[u8]| {
            std::str::from_utf8(bytes).is_ok_and(|text| text.contains(is_markup) && source.contains(text))
        };
        let mut protected = SpecialPieces::default();
        let (mut ids, mut firsts, mut lasts) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (id, bytes, kind) in tokenizer.pieces() {
            let structure = kind == PieceKind::UserDefined && names(bytes);
            // What is empty or no UTF-8 is never found in text.
            let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty()) else {
                continue;
            };
            if (structure || tokenizer.is_control(id)) && protected.insert(bytes, id) {
                ids.insert(id);
                firsts.extend(text.chars().next().into_iter().flat_map(cases));
                lasts.extend(text.chars().next_back().into_iter().flat_map(cases));
            }
        }
        Self { protected, ids, firsts, lasts }
    }

    /// Whether only scaffolding may produce this piece.
    pub fn protects(&self, id: TokenId) -> bool {
        self.ids.contains(&id)
    }

    /// The protected pieces that are recognised in a rendered text, in order.
    pub fn recognised(&self, text: &str, guards: &[usize]) -> Vec<TokenId> {
        let fragments = self.protected.partition(text, |_, range| !is_guarded(guards, text, &range));
        let piece = |fragment| if let Fragment::Piece(id, _) = fragment { Some(id) } else { None };
        fragments.into_iter().filter_map(piece).collect()
    }

    /// The text with sentinels; with `ends`, at both of its ends too. There they stand inside the white space
    /// that templates trim.
    pub fn mark(&self, text: &str, sentinel: char, ends: bool) -> String {
        let inner = text.trim();
        if inner.is_empty() {
            return text.to_owned();
        }
        let start = text.len() - text.trim_start().len();
        let mut marked = String::with_capacity(text.len() + 2 * sentinel.len_utf8());
        marked.push_str(&text[..start]);
        marked.extend(ends.then_some(sentinel));
        for character in inner.chars() {
            marked.extend(self.lasts.contains(&character).then_some(sentinel));
            marked.push(character);
            marked.extend(self.firsts.contains(&character).then_some(sentinel));
        }
        marked.extend(ends.then_some(sentinel));
        marked.push_str(&text[start + inner.len()..]);
        marked
    }
}

/// A character as it is, in lower and in upper case.
fn cases(character: char) -> impl Iterator<Item = char> {
    [character].into_iter().chain(character.to_lowercase()).chain(character.to_uppercase())
}

/// Whether a character may be taken as a sentinel.
pub(super) fn may_be_sentinel(character: char) -> bool {
    SENTINELS.iter().any(|range| range.contains(&u32::from(character)))
}

/// A private-use character that occurs in none of the texts.
pub(super) fn free_sentinel(source: &str, values: &[&Value]) -> Result<char, TemplateError> {
    let mut used = HashSet::new();
    let mut note = |text: &str| {
        used.extend(text.chars().filter(|&c| may_be_sentinel(c)));
    };
    note(source);
    values.iter().for_each(|value| visit(value, &mut note));
    SENTINELS
        .into_iter()
        .flatten()
        .filter_map(char::from_u32)
        .find(|candidate| !used.contains(candidate))
        .ok_or(TemplateError::NoSentinel)
}

fn visit(value: &Value, note: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => note(text),
        Value::Array(items) => items.iter().for_each(|item| visit(item, note)),
        Value::Object(map) => map.iter().for_each(|(key, item)| {
            note(key);
            visit(item, note);
        }),
        _ => {}
    }
}

/// The text without sentinels, and the guards: the byte positions in it where they stood, ascending.
pub(super) fn unmark(marked: &str, sentinel: char) -> (String, Vec<usize>) {
    let mut text = String::with_capacity(marked.len());
    let mut guards = Vec::new();
    for part in marked.split(sentinel) {
        guards.push(text.len());
        text.push_str(part);
    }
    // The first part follows no sentinel.
    guards.remove(0);
    (text, guards)
}

/// Whether a guard keeps a piece in this range from being recognised: one inside it, or one at each end of a
/// single character.
pub(super) fn is_guarded(guards: &[usize], text: &str, piece: &Range<usize>) -> bool {
    let from = |position: usize| guards.partition_point(|&guard| guard < position);
    if guards.get(from(piece.start + 1)).is_some_and(|&guard| guard < piece.end) {
        return true;
    }
    let has = |position: usize| guards.get(from(position)) == Some(&position);
    text[piece.clone()].chars().nth(1).is_none() && has(piece.start) && has(piece.end)
}
