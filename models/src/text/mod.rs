//! Text in and out of a model: tokenizer and detokenizer.

mod byte_alphabet;
mod byte_pair;
mod detokenizer;
mod endings;
mod error;
mod fields;
mod merge;
mod pre_tokenizer;
mod sentencepiece;
mod special;
mod tokenizer;
mod vocabulary;

pub use detokenizer::{Detokenizer, TextPosition};
pub use error::{TokenizerError, TokenizerWarning};
pub use special::SPECIAL_LEN_MAX;
pub use tokenizer::{Special, TokenId, Tokenizer, TokenizerHash};
pub use vocabulary::{PieceKind, VOCABULARY_LEN_MAX};
