//! What a GGUF header and text alone can tell: metadata, architectures → `Program`, tokenizer, chat template.
//!
//! No file is opened and no weight is read here: callers feed header bytes in and get data out.

pub mod arch;
pub mod gguf;
pub mod spec;
pub mod text;
