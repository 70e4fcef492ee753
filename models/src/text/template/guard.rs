//! Keeps control text that people, tools and pages supply apart from the template's own.
//!
//! A template is rendered into one text, in which both look alike. So where a supplied text contains the text
//! of a protected piece, a character that occurs nowhere else (the sentinel) is put inside it before
//! rendering. In the output, protected pieces that stand unbroken come from the template; the sentinels are
//! removed and their places remembered as guards, and no protected piece is recognised across a guard. All
//! other text encodes as if it had never been marked.
//!
//! Protected are all control and unknown pieces, and those user-defined ones that the template names: it uses
//! them as structure. User-defined words and white space are not protected: they are only a way to write
//! text, and hold no markup.

use super::super::special::SpecialPieces;
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
}

impl Guard {
    /// For a template with this source.
    pub fn new(tokenizer: &Tokenizer, source: &str) -> Self {
        let is_markup = |c: char| !c.is_alphanumeric() && !c.is_whitespace();
        let names = |bytes: &[u8]| {
            std::str::from_utf8(bytes).is_ok_and(|text| text.contains(is_markup) && source.contains(text))
        };
        let mut ids = BTreeSet::new();
        let mut protected = SpecialPieces::default();
        for (id, bytes, kind) in tokenizer.pieces() {
            let structure = kind == PieceKind::UserDefined && names(bytes);
            if (structure || tokenizer.is_control(id)) && protected.insert(bytes, id) {
                ids.insert(id);
            }
        }
        Self { protected, ids }
    }

    /// Whether only scaffolding may produce this piece.
    pub fn protects(&self, id: TokenId) -> bool {
        self.ids.contains(&id)
    }

    /// Where a sentinel has to stand so that no protected piece is whole: inside each, or before one of a
    /// single character.
    fn breaks(&self, text: &str) -> Vec<usize> {
        let mut places = Vec::new();
        for (start, character) in text.char_indices() {
            let second = start + character.len_utf8();
            for (_, end) in self.protected.starting_at(text.as_bytes(), start) {
                places.push(if end > second { second } else { start });
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Whether any text in the values contains a protected piece.
    pub fn is_needed(&self, values: &[&Value]) -> bool {
        let mut found = false;
        values.iter().for_each(|value| visit(value, &mut |text| found |= !self.breaks(text).is_empty()));
        found
    }

    /// The value with every text in it broken by the sentinel, keys included.
    pub fn mark(&self, value: &Value, sentinel: char) -> Value {
        match value {
            Value::String(text) => Value::String(self.mark_text(text, sentinel)),
            Value::Array(items) => items.iter().map(|item| self.mark(item, sentinel)).collect(),
            Value::Object(map) => map
                .iter()
                .map(|(key, item)| (self.mark_text(key, sentinel), self.mark(item, sentinel)))
                .collect(),
            other => other.clone(),
        }
    }

    fn mark_text(&self, text: &str, sentinel: char) -> String {
        let mut marked = String::with_capacity(text.len());
        let mut done = 0;
        for place in self.breaks(text) {
            marked.push_str(&text[done..place]);
            marked.push(sentinel);
            done = place;
        }
        marked.push_str(&text[done..]);
        marked
    }
}

/// A private-use character that occurs in none of the texts.
pub(super) fn free_sentinel(source: &str, values: &[&Value]) -> Result<char, TemplateError> {
    let mut used = HashSet::new();
    let mut note = |text: &str| {
        used.extend(text.chars().filter(|&c| SENTINELS.iter().any(|range| range.contains(&u32::from(c)))));
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

/// Whether a guard stands in the range of a piece: at its start or inside it.
pub(super) fn is_guarded(guards: &[usize], piece: &Range<usize>) -> bool {
    let next = guards.partition_point(|&guard| guard < piece.start);
    guards.get(next).is_some_and(|&guard| guard < piece.end)
}
