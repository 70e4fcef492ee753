//! Byte-level byte-pair encoding: a pre-tokenizer splits the text, a ranked list of merges joins the bytes.

use super::byte_alphabet;
use super::error::TokenizerError;
use super::merge::{Symbol, merge};
use super::pre_tokenizer::PreTokenizer;
use super::vocabulary::{PieceKind, Vocabulary};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use unicode_normalization_alignments::{UnicodeNormalization, is_nfc};

/// Encoder for `tokenizer.ggml.model = gpt2`.
#[derive(Debug)]
pub(super) struct BytePair {
    pre_tokenizer: PreTokenizer,
    /// Id of the piece of each single byte.
    bytes: Box<[Option<u32>; 256]>,
    /// From the ids of two neighbours to the rank of their merge (0 goes first) and the id they become.
    merges: HashMap<(u32, u32), (u32, u32)>,
}

/// Splits a merge line at its space. A piece may begin with a space, so the first character is skipped; other
/// white space belongs to the pieces.
fn split_merge(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = 1 + line.get(1..)?.iter().position(|&byte| byte == b' ')?;
    let right = &line[at + 1..];
    (!right.is_empty()).then_some((&line[..at], right))
}

impl BytePair {
    /// `texts` are the pieces as the file writes them, `lines` its merges.
    pub fn new(
        pre_tokenizer: PreTokenizer,
        vocabulary: &Vocabulary,
        texts: &[Vec<u8>],
        lines: &[Vec<u8>],
    ) -> Result<Self, TokenizerError> {
        let mut ids: HashMap<&[u8], u32> = HashMap::with_capacity(texts.len());
        for (id, text) in texts.iter().enumerate() {
            if !matches!(vocabulary.kind(id as u32), PieceKind::Control | PieceKind::Unknown) {
                ids.entry(text).or_insert(id as u32);
            }
        }
        let find = |index: usize, piece: &[u8]| {
            ids.get(piece).copied().ok_or_else(|| TokenizerError::MergeWithoutPiece {
                index,
                piece: String::from_utf8_lossy(piece).into_owned(),
            })
        };
        let mut merges = HashMap::with_capacity(lines.len());
        for (index, line) in lines.iter().enumerate() {
            let (left, right) = split_merge(line).ok_or(TokenizerError::MalformedMerge { index })?;
            let merged = find(index, &[left, right].concat())?;
            let pair = (find(index, left)?, find(index, right)?);
            merges.entry(pair).or_insert((index as u32, merged));
        }
        let characters = byte_alphabet::characters();
        let bytes = characters.map(|c| ids.get(c.encode_utf8(&mut [0; 4]).as_bytes()).copied());
        Ok(Self { pre_tokenizer, bytes: Box::new(bytes), merges })
    }

    /// How many byte values that occur in UTF-8 have no piece.
    pub fn unencodable_bytes(&self) -> usize {
        let occurs = |byte: usize| !matches!(byte, 0xC0 | 0xC1 | 0xF5..=0xFF);
        (0..256).filter(|&byte| occurs(byte) && self.bytes[byte].is_none()).count()
    }

    /// Appends the ids of `text`. Bytes without a piece are dropped, as the models' own tokenizers do.
    pub fn encode(&self, vocabulary: &Vocabulary, text: &str, ids: &mut Vec<u32>) {
        let normalised = match self.pre_tokenizer.normalises() && !is_nfc(text) {
            // By the tables that published tokenizers were made with: newer ones order newer marks otherwise.
            true => Cow::Owned(text.nfc().map(|(char, _)| char).collect::<String>()),
            false => Cow::Borrowed(text),
        };
        let mut symbols = Vec::new();
        for word in self.pre_tokenizer.split(&normalised) {
            let word = &normalised.as_bytes()[word];
            if self.pre_tokenizer.looks_up_words()
                && let Some(id) = vocabulary.find(word)
            {
                ids.push(id);
                continue;
            }
            symbols.clear();
            symbols.extend(word.iter().enumerate().map(|(start, &byte)| Symbol {
                start,
                end: start + 1,
                id: self.bytes[byte as usize],
            }));
            merge(&mut symbols, |left, right| {
                let &(rank, id) = self.merges.get(&(left.id?, right.id?))?;
                Some((Reverse(rank), id))
            });
            ids.extend(symbols.iter().filter_map(|symbol| symbol.id));
        }
    }
}
