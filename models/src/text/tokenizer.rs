//! Text to ids and back, as the model's own tokenizer does it.
//!
//! # Which pieces text can produce
//!
//! | kind of piece | [`Special::Ignore`] | [`Special::Recognise`] |
//! |---|---|---|
//! | ordinary, byte | by merging | by merging |
//! | user-defined | wherever its text stands | wherever its text stands |
//! | control, unknown | never | wherever its text stands |
//! | unused | never | never |
//!
//! A user-defined piece that ends a generation counts as control. Prompts of a conversation go through
//! [`super::template::ChatTemplate`], which also withholds the user-defined pieces its template uses as
//! structure.

use super::byte_pair::BytePair;
use super::detokenizer::{Detokenizer, TextPosition};
use super::endings;
use super::error::{TokenizerError, TokenizerWarning};
use super::fields;
use super::pre_tokenizer::{PreTokenizer, UNNAMED};
use super::reasoning;
use super::sentencepiece::{SPACE_MARK, SentencePiece};
use super::special::{Fragment, SpecialPieces};
use super::vocabulary::{PieceKind, Spelling, Vocabulary};
use crate::gguf::Metadata;
use crate::gguf::metadata::required;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::ops::Range;

/// Id of a piece: its position in the vocabulary.
pub type TokenId = u32;

/// Whether control text in a text becomes control pieces. See the table at the top of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// Control text is ordinary text.
    Ignore,
    /// Control text becomes control pieces: for text that is scaffolding by definition.
    Recognise,
}

/// Identifies a vocabulary with its merges and pre-tokenizer: equal hashes mean equal ids for every text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenizerHash(pub [u8; 16]);

impl std::fmt::Display for TokenizerHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[derive(Debug)]
enum Encoder {
    BytePair(BytePair),
    SentencePiece(SentencePiece),
}

/// A tokenizer built from a file's metadata.
#[derive(Debug)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    special: SpecialPieces,
    encoder: Encoder,
    bos: Option<TokenId>,
    eos: Option<TokenId>,
    adds_bos: bool,
    end_ids: Vec<TokenId>,
    warnings: Vec<TokenizerWarning>,
    hash: TokenizerHash,
}

impl Tokenizer {
    /// Reads the `tokenizer.ggml.*` keys.
    ///
    /// Fails when the file has no tokenizer, one of another kind, an unknown pre-tokenizer, or damaged
    /// arrays.
    pub fn from_metadata(metadata: &Metadata) -> Result<Self, TokenizerError> {
        const MODEL: &str = "tokenizer.ggml.model";
        let model = required(MODEL, metadata.get_text(MODEL)?)?;
        let mut warnings = Vec::new();
        let (vocabulary, encoder, adds_bos) = match &*model {
            "gpt2" => read_byte_pair(metadata, &mut warnings)?,
            "llama" => read_sentencepiece(metadata, &mut warnings)?,
            other => return Err(TokenizerError::UnknownModel { found: other.to_owned() }),
        };
        let one = |key| fields::piece_ids(metadata, key, vocabulary.len()).map(|ids| ids.first().copied());
        const BOS: &str = "tokenizer.ggml.bos_token_id";
        let bos = one(BOS)?.or_else(|| {
            let named = |&(_, bytes, kind): &(u32, &[u8], PieceKind)| {
                kind == PieceKind::Control && (bytes == b"<s>" || bytes == b"<bos>")
            };
            vocabulary.pieces().find(named).map(|(id, _, _)| id)
        });
        let wants_bos = metadata.get_bool("tokenizer.ggml.add_bos_token")?;
        if wants_bos == Some(true) {
            required(BOS, bos)?;
        }
        Ok(Self {
            special: SpecialPieces::new(&vocabulary)?,
            end_ids: endings::end_ids(metadata, &vocabulary)?,
            eos: one("tokenizer.ggml.eos_token_id")?,
            bos,
            adds_bos: wants_bos.unwrap_or(adds_bos),
            hash: hash(metadata, &model)?,
            vocabulary,
            encoder,
            warnings,
        })
    }

    /// Ids of `text`, without BOS. Linear in the length of the text but for a logarithm.
    ///
    /// Text that no piece covers becomes unknown pieces where the vocabulary has one, and is dropped
    /// otherwise; see [`Tokenizer::warnings`].
    pub fn encode(&self, text: &str, special: Special) -> Vec<TokenId> {
        self.encode_where(text, |id, _| match self.vocabulary.kind(id) {
            PieceKind::UserDefined => special == Special::Recognise || !self.is_control(id),
            _ => special == Special::Recognise,
        })
    }

    /// Ids of `text`, in which a special piece is recognised where `accept` allows it, given its id and its
    /// bytes' range in `text`.
    pub(super) fn encode_where(
        &self,
        text: &str,
        accept: impl Fn(TokenId, Range<usize>) -> bool,
    ) -> Vec<TokenId> {
        let (text, origin) = self.with_spaces(text);
        let accept = |id, found: Range<usize>| accept(id, origin(found.start)..origin(found.end));
        let mut ids = Vec::new();
        for fragment in self.special.partition(&text, accept) {
            match fragment {
                Fragment::Piece(id, _) => ids.push(id),
                Fragment::Text(range) => self.encode_plain(&text[range.clone()], range.start == 0, &mut ids),
            }
        }
        ids
    }

    /// The text in which SentencePiece finds pieces, and from positions in it to positions in `text`.
    fn with_spaces<'a>(&self, text: &'a str) -> (Cow<'a, str>, impl Fn(usize) -> usize + use<>) {
        let mut marks: Vec<usize> = Vec::new();
        let spaced = match self.encoder {
            Encoder::SentencePiece(_) if text.contains(SPACE_MARK) => {
                let lost = SPACE_MARK.len_utf8() - 1;
                marks.extend(text.match_indices(SPACE_MARK).enumerate().map(|(i, (at, _))| at - i * lost));
                Cow::Owned(text.replace(SPACE_MARK, " "))
            }
            _ => Cow::Borrowed(text),
        };
        let origin =
            move |at: usize| at + marks.partition_point(|&mark| mark < at) * (SPACE_MARK.len_utf8() - 1);
        (spaced, origin)
    }

    fn encode_plain(&self, text: &str, is_start: bool, ids: &mut Vec<TokenId>) {
        match &self.encoder {
            Encoder::BytePair(encoder) => encoder.encode(&self.vocabulary, text, ids),
            Encoder::SentencePiece(encoder) if is_start && encoder.add_space_prefix => {
                encoder.encode(&self.vocabulary, &format!(" {text}"), ids);
            }
            Encoder::SentencePiece(encoder) => encoder.encode(&self.vocabulary, text, ids),
        }
    }

    /// The id to put before a text, if this model wants one. A chat prompt has it already where its template
    /// prints it.
    pub fn bos(&self) -> Option<TokenId> {
        self.bos.filter(|_| self.adds_bos)
    }

    /// Ids of a raw prompt: those of `text` with exactly one BOS before them, where this model wants one.
    pub fn encode_prompt(&self, text: &str, special: Special) -> Vec<TokenId> {
        self.with_one_bos(self.encode(text, special))
    }

    /// Exactly one BOS at the start, whether the ids have none or several; unchanged where the model wants
    /// none.
    pub(super) fn with_one_bos(&self, mut ids: Vec<TokenId>) -> Vec<TokenId> {
        if let Some(bos) = self.bos() {
            let present = ids.iter().take_while(|&&id| id == bos).count();
            ids.splice(..present, [bos]);
        }
        ids
    }

    /// The text of BOS and of EOS for templates; empty where the model has none.
    pub fn bos_and_eos_texts(&self) -> (String, String) {
        let text = |id: Option<TokenId>| {
            id.map_or_else(String::new, |id| String::from_utf8_lossy(self.vocabulary.bytes(id)).into_owned())
        };
        (text(self.bos), text(self.eos))
    }

    /// Every id that ends a generation, in order.
    pub fn end_ids(&self) -> &[TokenId] {
        &self.end_ids
    }

    /// The bytes a piece adds to a text; the name of a control piece; nothing for an id outside the
    /// vocabulary.
    pub fn token_bytes(&self, id: TokenId) -> &[u8] {
        self.vocabulary.bytes(id)
    }

    /// The kind of a piece, as the file says.
    pub fn kind(&self, id: TokenId) -> PieceKind {
        self.vocabulary.kind(id)
    }

    /// Whether a piece is structure and not text: control, unknown, or user-defined and ending a generation.
    pub fn is_control(&self, id: TokenId) -> bool {
        match self.vocabulary.kind(id) {
            PieceKind::Control | PieceKind::Unknown => true,
            PieceKind::UserDefined => self.is_end(id),
            _ => false,
        }
    }

    /// Whether a piece ends a generation.
    pub fn is_end(&self, id: TokenId) -> bool {
        self.end_ids.binary_search(&id).is_ok()
    }

    /// The text of a control piece, which replies do not have otherwise.
    pub fn control_text(&self, id: TokenId) -> Option<&str> {
        let bytes = self.is_control(id).then(|| self.vocabulary.bytes(id));
        bytes.and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// The mark of reasoning that a control piece stands for; others with that text are ordinary text.
    pub fn control_mark(&self, id: TokenId) -> Option<&str> {
        self.control_text(id).filter(|text| reasoning::is_mark(text.as_bytes()))
    }

    /// Number of pieces; ids are below it.
    pub fn vocabulary_len(&self) -> usize {
        self.vocabulary.len()
    }

    /// What is odd about the file but does not prevent its use.
    pub fn warnings(&self) -> &[TokenizerWarning] {
        &self.warnings
    }

    /// Identifies vocabulary, merges and pre-tokenizer.
    pub fn tokenizer_hash(&self) -> TokenizerHash {
        self.hash
    }

    /// Whether decoding from the start of a text drops one leading space, because encoding added it.
    pub(super) fn adds_space(&self) -> bool {
        matches!(&self.encoder, Encoder::SentencePiece(encoder) if encoder.add_space_prefix)
    }

    /// The text of `ids`, a whole text or a continuation. Control pieces are left out, bytes that are not
    /// UTF-8 replaced.
    pub fn decode(&self, ids: &[TokenId], position: TextPosition) -> String {
        let mut detokenizer = Detokenizer::new(self, position);
        let mut text: String = ids.iter().map(|&id| detokenizer.push(self, id)).collect();
        text.push_str(&detokenizer.finish());
        text
    }

    /// Whether `text` is the whole text of a control or user-defined piece.
    pub(super) fn has_special(&self, text: &str) -> bool {
        self.special.starting_at(text.as_bytes(), 0).any(|(_, end)| end == text.len())
    }

    /// All pieces with their ids.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (TokenId, &[u8], PieceKind)> {
        self.vocabulary.pieces()
    }
}

fn read_byte_pair(
    metadata: &Metadata,
    warnings: &mut Vec<TokenizerWarning>,
) -> Result<(Vocabulary, Encoder, bool), TokenizerError> {
    const MERGES: &str = "tokenizer.ggml.merges";
    let name = metadata.get_text(PRE)?.unwrap_or(Cow::Borrowed(UNNAMED));
    if name == UNNAMED {
        warnings.push(TokenizerWarning::PreTokenizerMissing);
    }
    let pre_tokenizer = PreTokenizer::named(&name)?;
    let adds_bos = pre_tokenizer.adds_bos();
    let vocabulary = Vocabulary::new(metadata, Spelling::ByteLevel)?;
    let texts = metadata.get_bytes_array(TOKENS)?.unwrap_or_default();
    let merges = required(MERGES, metadata.get_bytes_array(MERGES)?)?;
    let encoder = BytePair::new(pre_tokenizer, &vocabulary, texts, merges)?;
    match encoder.unencodable_bytes() {
        0 => {}
        count => warnings.push(TokenizerWarning::UnencodableBytes { count }),
    }
    Ok((vocabulary, Encoder::BytePair(encoder), adds_bos))
}

fn read_sentencepiece(
    metadata: &Metadata,
    warnings: &mut Vec<TokenizerWarning>,
) -> Result<(Vocabulary, Encoder, bool), TokenizerError> {
    const SCORES: &str = "tokenizer.ggml.scores";
    let vocabulary = Vocabulary::new(metadata, Spelling::SentencePiece)?;
    let scores = required(SCORES, metadata.get_f32_array(SCORES)?)?;
    if scores.len() != vocabulary.len() {
        let (wanted, found) = (vocabulary.len(), scores.len());
        return Err(TokenizerError::CountMismatch { key: SCORES, wanted, found });
    }
    if let Some(id) = scores.iter().position(|score| !score.is_finite()) {
        return Err(TokenizerError::ScoreNotFinite { id });
    }
    let unknown = fields::piece_ids(metadata, "tokenizer.ggml.unknown_token_id", vocabulary.len())?
        .first()
        .copied()
        .or_else(|| vocabulary.pieces().find(|piece| piece.2 == PieceKind::Unknown).map(|piece| piece.0));
    let add_space_prefix = metadata.get_bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    let encoder = SentencePiece::new(&vocabulary, scores, unknown, add_space_prefix);
    if !encoder.has_byte_pieces() {
        warnings.push(TokenizerWarning::UnencodableBytes { count: 256 });
    }
    Ok((vocabulary, Encoder::SentencePiece(encoder), true))
}

const TOKENS: &str = "tokenizer.ggml.tokens";
const PRE: &str = "tokenizer.ggml.pre";

/// SHA-256 over everything that decides ids, cut to 16 bytes. Lengths go in, so that no two lists run
/// together.
fn hash(metadata: &Metadata, model: &str) -> Result<TokenizerHash, TokenizerError> {
    let mut sha = Sha256::new();
    let mut add = |bytes: &[u8]| {
        sha.update((bytes.len() as u64).to_le_bytes());
        sha.update(bytes);
    };
    add(model.as_bytes());
    add(metadata.get_text(PRE)?.unwrap_or(Cow::Borrowed(UNNAMED)).as_bytes());
    for key in [TOKENS, "tokenizer.ggml.merges"] {
        let items = metadata.get_bytes_array(key)?.unwrap_or_default();
        add(&(items.len() as u64).to_le_bytes());
        items.iter().for_each(|item| add(item));
    }
    for score in metadata.get_f32_array("tokenizer.ggml.scores")?.unwrap_or_default() {
        add(&score.to_bits().to_le_bytes());
    }
    let mut short = [0; 16];
    short.copy_from_slice(&sha.finalize()[..16]);
    Ok(TokenizerHash(short))
}
