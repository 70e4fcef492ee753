//! Vocabularies: tiny ones trained on a sample text, and placeholders as large as the published ones.

use super::text;
use crate::gguf::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Which tokens a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VocabularyKind {
    /// Byte-level BPE trained on the sample text, ChatML; 256 bytes, 128 merges, 3 control tokens. The
    /// pre-tokenizer is that of Qwen 2.
    TinyByteLevel,
    /// SentencePiece pieces trained on the sample text, with bytes; gemma's turns.
    TinySentencePiece,
    /// 151,936 entries placed like Qwen 2.5's.
    Qwen,
    /// 128,256 entries placed like Llama 3's.
    Llama3,
    /// 49,152 entries placed like SmolLM2's.
    SmolLm,
    /// 262,144 entries placed like Gemma 3's.
    Gemma,
}

/// What a token is, by the ids of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenKind {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    Unused = 5,
    Byte = 6,
}

/// The tokens of a file and everything that belongs to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Vocabulary {
    tokens: Vec<String>,
    kinds: Vec<i32>,
    /// `left right`, in order of application; empty for SentencePiece.
    merges: Vec<String>,
    is_sentence_piece: bool,
    pre: &'static str,
    bos: Option<u32>,
    eos: u32,
    adds_bos: bool,
    template: &'static str,
}

const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' \
    + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
const GEMMA_TURNS: &str = "{{ bos_token }}{% for message in messages %}{{ '<start_of_turn>' \
    + ('model' if message['role'] == 'assistant' else message['role']) + '\n' + message['content'] \
    + '<end_of_turn>\n' }}{% endfor %}\
    {% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}";
const LLAMA_HEADERS: &str = "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' \
    + message['role'] + '<|end_header_id|>\n\n' + message['content'] + '<|eot_id|>' }}{% endfor %}\
    {% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}";
const TINY_MERGES: usize = 128;
/// SentencePiece's and byte-level BPE's signs for a space.
const SPIECE_SPACE: char = '\u{2581}';
const BYTE_SPACE: char = '\u{120}';

/// The character that stands for a byte in byte-level vocabularies (GPT-2's table).
pub fn byte_char(byte: u8) -> char {
    let is_printable = |b: u8| matches!(b, 33..=126 | 161..=172 | 174..=255);
    if is_printable(byte) {
        return char::from(byte);
    }
    let rank = (0..byte).filter(|b| !is_printable(*b)).count() as u32;
    char::from_u32(256 + rank).unwrap_or(char::REPLACEMENT_CHARACTER)
}

impl Vocabulary {
    /// Tokens of this kind.
    pub fn new(kind: VocabularyKind) -> Self {
        match kind {
            VocabularyKind::TinyByteLevel => Self::tiny_byte_level(),
            VocabularyKind::TinySentencePiece => Self::gemma_like(None),
            VocabularyKind::Gemma => Self::gemma_like(Some(262_144)),
            VocabularyKind::Qwen => {
                let mut v = Self::byte_level("qwen2", CHATML);
                v.push_merges_until(151_643);
                v.push_controls(&["<|endoftext|>", "<|im_start|>", "<|im_end|>"]);
                v.pad_until(151_936, "[PAD", "]");
                Self { bos: Some(151_643), eos: 151_645, ..v }
            }
            VocabularyKind::Llama3 => {
                let mut v = Self::byte_level("llama-bpe", LLAMA_HEADERS);
                v.push_merges_until(128_000);
                v.push_controls(&["<|begin_of_text|>", "<|end_of_text|>"]);
                (0..4).for_each(|i| v.push(format!("<|reserved_special_token_{i}|>"), TokenKind::Control));
                v.push_controls(&["<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>"]);
                v.pad_until(128_256, "<|reserved_special_token_", "|>");
                Self { bos: Some(128_000), eos: 128_009, adds_bos: true, ..v }
            }
            VocabularyKind::SmolLm => {
                let mut v = Self::empty("smollm", CHATML);
                v.push_controls(&["<|endoftext|>", "<|im_start|>", "<|im_end|>"]);
                (3..17).for_each(|i| v.push(format!("<reserved_{i}>"), TokenKind::Control));
                v.push_bytes();
                v.push_merges_until(49_152);
                Self { bos: Some(1), eos: 2, ..v }
            }
        }
    }

    fn empty(pre: &'static str, template: &'static str) -> Self {
        let (tokens, kinds, merges) = (Vec::new(), Vec::new(), Vec::new());
        let is_sentence_piece = false;
        Self { tokens, kinds, merges, is_sentence_piece, pre, bos: None, eos: 0, adds_bos: false, template }
    }

    fn byte_level(pre: &'static str, template: &'static str) -> Self {
        let mut vocabulary = Self::empty(pre, template);
        vocabulary.push_bytes();
        vocabulary
    }

    fn tiny_byte_level() -> Self {
        let mut v = Self::byte_level("qwen2", CHATML);
        for (left, right) in train_merges(BYTE_SPACE, TINY_MERGES) {
            v.merges.push(format!("{left} {right}"));
            v.push(left + &right, TokenKind::Normal);
        }
        v.push_controls(&["<|endoftext|>", "<|im_start|>", "<|im_end|>"]);
        let eos = v.tokens.len() as u32 - 1;
        Self { bos: Some(eos - 2), eos, ..v }
    }

    /// Gemma's pieces: with `len`, its ids and as many pieces; without, a tiny vocabulary.
    fn gemma_like(len: Option<usize>) -> Self {
        let mut v = Self { is_sentence_piece: true, ..Self::empty("default", GEMMA_TURNS) };
        v.push_controls(&["<pad>", "<eos>", "<bos>"]);
        v.push("<unk>".to_owned(), TokenKind::Unknown);
        if len.is_some() {
            v.pad_until(105, "<unused", ">");
        }
        v.push_controls(&["<start_of_turn>", "<end_of_turn>"]);
        (0..=255).for_each(|b: u8| v.push(format!("<0x{b:02X}>"), TokenKind::Byte));
        let letters = alphabet(SPIECE_SPACE);
        letters.iter().for_each(|c| v.push(c.to_string(), TokenKind::Normal));
        match len {
            Some(len) => v.push_merges_until(len),
            None => train_merges(SPIECE_SPACE, TINY_MERGES)
                .into_iter()
                .for_each(|(left, right)| v.push(left + &right, TokenKind::Normal)),
        }
        Self { bos: Some(2), eos: 1, adds_bos: true, ..v }
    }

    fn push(&mut self, token: String, kind: TokenKind) {
        self.tokens.push(token);
        self.kinds.push(kind as i32);
    }

    fn push_controls(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.push((*name).to_owned(), TokenKind::Control));
    }

    fn push_bytes(&mut self) {
        (0..=255).for_each(|b| self.push(byte_char(b).to_string(), TokenKind::Normal));
    }

    fn pad_until(&mut self, len: usize, before: &str, after: &str) {
        // Numbered from 1000 on, out of the way of the reserved tokens that have a place.
        (self.tokens.len()..len)
            .for_each(|i| self.push(format!("{before}{}{after}", i + 1000), TokenKind::Unused));
    }

    /// Adds all pairs, then triples, of printable characters until the vocabulary has `len` entries, so that
    /// any English text takes about three characters per token.
    fn push_merges_until(&mut self, len: usize) {
        let letters = alphabet(if self.is_sentence_piece { SPIECE_SPACE } else { BYTE_SPACE });
        let mut level: Vec<String> = letters.iter().map(|c| c.to_string()).collect();
        while self.tokens.len() < len {
            let mut longer = Vec::new();
            for (left, right) in level.iter().flat_map(|l| letters.iter().map(move |r| (l, r))) {
                if self.tokens.len() == len {
                    return;
                }
                if !self.is_sentence_piece {
                    self.merges.push(format!("{left} {right}"));
                }
                longer.push(format!("{left}{right}"));
                self.push(format!("{left}{right}"), TokenKind::Normal);
            }
            level = longer;
        }
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The end token.
    pub fn eos(&self) -> u32 {
        self.eos
    }

    /// The id of a token by its text in the file.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.tokens.iter().position(|t| t == token).map(|i| i as u32)
    }

    /// The keys under `tokenizer.`.
    pub fn metadata(&self) -> Vec<(String, Value)> {
        let mut keys = vec![
            ("ggml.model", Value::from(if self.is_sentence_piece { "llama" } else { "gpt2" })),
            ("ggml.pre", self.pre.into()),
            ("ggml.tokens", Value::strings(&self.tokens)),
            ("ggml.token_type", Value::i32s(&self.kinds)),
        ];
        if self.is_sentence_piece {
            let scores: Vec<f32> = (0..self.tokens.len()).map(|i| -(i as f32)).collect();
            keys.push(("ggml.scores", Value::f32s(&scores)));
            keys.push(("ggml.unknown_token_id", 3_u32.into()));
            keys.push(("ggml.padding_token_id", 0_u32.into()));
            keys.push(("ggml.add_space_prefix", false.into()));
        } else {
            keys.push(("ggml.merges", Value::strings(&self.merges)));
        }
        keys.extend(self.bos.map(|id| ("ggml.bos_token_id", id.into())));
        keys.push(("ggml.eos_token_id", self.eos.into()));
        keys.push(("ggml.add_bos_token", self.adds_bos.into()));
        keys.push(("chat_template", self.template.into()));
        keys.into_iter().map(|(key, value)| (format!("tokenizer.{key}"), value)).collect()
    }
}

/// Printable ASCII with the sign for a space in place of the space, letters first.
fn alphabet(space: char) -> Vec<char> {
    let mut letters: Vec<char> = (33..=126_u8).map(char::from).collect();
    letters.sort_by_key(|c| (!c.is_ascii_lowercase(), *c));
    letters.insert(0, space);
    letters
}

/// Learns `count` merges from the sample text: again and again the most frequent pair, the smallest of
/// equals.
fn train_merges(space: char, count: usize) -> Vec<(String, String)> {
    let mut words: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for word in text::SAMPLE.split(' ') {
        let symbols = std::iter::once(space).chain(word.chars()).map(String::from).collect();
        *words.entry(symbols).or_default() += 1;
    }
    let mut known = BTreeSet::new();
    let mut merges = Vec::new();
    while merges.len() < count {
        let mut pairs: BTreeMap<(&String, &String), usize> = BTreeMap::new();
        for (word, times) in &words {
            word.windows(2).for_each(|w| *pairs.entry((&w[0], &w[1])).or_default() += times);
        }
        let fresh = pairs.into_iter().filter(|((l, r), _)| !known.contains(&format!("{l}{r}")));
        let best = fresh.max_by_key(|&(pair, times)| (times, std::cmp::Reverse(pair)));
        let Some(((left, right), _)) = best else { break };
        let (left, right) = (left.clone(), right.clone());
        words = words.into_iter().map(|(word, times)| (merge(&word, &left, &right), times)).collect();
        known.insert(format!("{left}{right}"));
        merges.push((left, right));
    }
    merges
}

/// A word with every occurrence of a pair joined, left to right.
fn merge(word: &[String], left: &str, right: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut symbols = word.iter().peekable();
    while let Some(symbol) = symbols.next() {
        if symbol == left && symbols.peek().is_some_and(|next| *next == right) {
            symbols.next();
            out.push(format!("{left}{right}"));
        } else {
            out.push(symbol.clone());
        }
    }
    out
}
