//! The pieces of a vocabulary: what each stands for, what kind it is, and which piece stands for given bytes.

use super::byte_alphabet;
use super::control;
use super::error::TokenizerError;
use super::sentencepiece::SPACE_MARK;
use crate::gguf::Metadata;
use crate::gguf::metadata::required;
use std::collections::HashMap;

/// Most pieces of a vocabulary: four times the largest published one, so a larger count is a broken header.
pub const VOCABULARY_LEN_MAX: usize = 1 << 20;

/// The template of a file, which names its control texts.
const TEMPLATE: &str = "tokenizer.chat_template";

/// What a piece is for, after the specification's token types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceKind {
    /// Ordinary text.
    Normal,
    /// Stands for text that no piece covers.
    Unknown,
    /// Structure of a conversation; has no text of its own.
    Control,
    /// Text that is always one piece.
    UserDefined,
    /// A place holder.
    Unused,
    /// One byte, for text that no piece covers.
    Byte,
}

impl PieceKind {
    fn from_code(code: u32) -> Self {
        match code {
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => Self::Normal,
        }
    }
}

/// How pieces write bytes that are not printable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// The byte-level alphabet.
    ByteLevel,
    /// U+2581 for a space and `<0x00>` for bytes.
    SentencePiece,
}

/// All pieces; ids run from 0 without gaps.
#[derive(Debug)]
pub(super) struct Vocabulary {
    bytes: Vec<Box<[u8]>>,
    kinds: Vec<PieceKind>,
    normal: HashMap<Box<[u8]>, u32>,
    retyped: Vec<u32>,
}

impl Vocabulary {
    /// Reads `tokenizer.ggml.tokens` and `tokenizer.ggml.token_type`.
    pub fn new(metadata: &Metadata, spelling: Spelling) -> Result<Self, TokenizerError> {
        const TOKENS: &str = "tokenizer.ggml.tokens";
        const TYPES: &str = "tokenizer.ggml.token_type";
        let texts = required(TOKENS, metadata.get_bytes_array(TOKENS)?)?;
        if texts.is_empty() || texts.len() > VOCABULARY_LEN_MAX {
            return Err(TokenizerError::VocabularySize { found: texts.len(), limit: VOCABULARY_LEN_MAX });
        }
        let mut kinds: Vec<PieceKind> = match metadata.get_u32_array(TYPES)? {
            None => vec![PieceKind::Normal; texts.len()],
            Some(codes) => codes.into_iter().map(PieceKind::from_code).collect(),
        };
        if kinds.len() != texts.len() {
            let found = kinds.len();
            return Err(TokenizerError::CountMismatch { key: TYPES, wanted: texts.len(), found });
        }
        // A template of another type is the template reader's to refuse.
        let template = metadata.get_bytes(TEMPLATE).ok().flatten().unwrap_or_default();
        let retyped = retype(texts, &mut kinds, template);
        let characters = byte_alphabet::characters();
        let bytes: Vec<Box<[u8]>> = texts
            .iter()
            .zip(&kinds)
            .map(|(text, &kind)| meaning(text, kind, spelling, &characters).into_boxed_slice())
            .collect();
        let mut normal = HashMap::with_capacity(bytes.len());
        for (id, piece) in bytes.iter().enumerate() {
            if kinds[id] == PieceKind::Normal && !piece.is_empty() {
                normal.entry(piece.clone()).or_insert(id as u32);
            }
        }
        Ok(Self { bytes, kinds, normal, retyped })
    }

    /// Number of pieces, at least 1.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What a piece stands for; nothing for an id outside the vocabulary.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.bytes.get(id as usize).map_or(&[], |bytes| bytes)
    }

    /// The kind of a piece; [`PieceKind::Unused`] for an id outside the vocabulary.
    pub fn kind(&self, id: u32) -> PieceKind {
        self.kinds.get(id as usize).copied().unwrap_or(PieceKind::Unused)
    }

    /// The ordinary piece that stands for `bytes`.
    pub fn find(&self, bytes: &[u8]) -> Option<u32> {
        self.normal.get(bytes).copied()
    }

    /// Control pieces that the file types as something else.
    pub fn retyped(&self) -> &[u32] {
        &self.retyped
    }

    /// All pieces with their ids.
    pub fn pieces(&self) -> impl Iterator<Item = (u32, &[u8], PieceKind)> {
        self.bytes.iter().zip(&self.kinds).enumerate().map(|(id, (b, &kind))| (id as u32, &**b, kind))
    }
}

/// Makes control pieces of those that are it by name but typed as text or as unused; returns their ids.
fn retype(texts: &[Vec<u8>], kinds: &mut [PieceKind], template: &[u8]) -> Vec<u32> {
    let template = std::str::from_utf8(template).unwrap_or_default();
    let literals = control::literals(template);
    let mut retyped = Vec::new();
    for (id, (text, kind)) in texts.iter().zip(kinds).enumerate() {
        // Only what ends like a mark is looked up: a vocabulary has a hundred thousand other pieces.
        if matches!(kind, PieceKind::Normal | PieceKind::Unused)
            && matches!(text.last(), Some(b'>' | b']'))
            && std::str::from_utf8(text).is_ok_and(|text| control::is_control(text, &literals))
        {
            *kind = PieceKind::Control;
            retyped.push(id as u32);
        }
    }
    retyped
}

/// The bytes a piece stands for. Only ordinary pieces are spelled; the others are written as they are.
fn meaning(text: &[u8], kind: PieceKind, spelling: Spelling, characters: &[char; 256]) -> Vec<u8> {
    let Ok(readable) = std::str::from_utf8(text) else { return text.to_vec() };
    match (kind, spelling) {
        (PieceKind::Normal, Spelling::ByteLevel) => byte_alphabet::decode(readable, characters),
        (PieceKind::Normal, Spelling::SentencePiece) => readable.replace(SPACE_MARK, " ").into_bytes(),
        (PieceKind::UserDefined, Spelling::SentencePiece) => readable.replace(SPACE_MARK, " ").into_bytes(),
        (PieceKind::Byte, _) => byte_piece(readable).map_or_else(|| text.to_vec(), |byte| vec![byte]),
        _ => text.to_vec(),
    }
}

/// The value of a piece written as `<0x00>` to `<0xFF>`.
fn byte_piece(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}
