//! Text in and out of a model: tokenizer, detokenizer, chat template and the split of replies into reasoning
//! and answer.

mod byte_alphabet;
mod byte_pair;
pub mod calls;
mod detokenizer;
mod endings;
mod error;
mod fields;
mod merge;
mod pre_tokenizer;
mod reasoning;
mod sentencepiece;
mod special;
mod stop;
pub mod template;
mod tokenizer;
mod vocabulary;

pub use detokenizer::{Detokenizer, TextPosition};
pub use error::{TokenizerError, TokenizerWarning};
pub use reasoning::ReasoningSplitter;
pub use special::SPECIAL_LEN_MAX;
pub use stop::{STOP_BYTES_MAX, STOPS_MAX, StopFilter};
pub use tokenizer::{Special, TokenId, Tokenizer, TokenizerHash};
pub use vocabulary::{PieceKind, VOCABULARY_LEN_MAX};
