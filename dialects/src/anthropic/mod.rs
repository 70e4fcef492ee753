//! Anthropic's dialect: messages, and how many tokens they have.

mod blocks;
mod reply;
mod request;

pub use request::{read, read_count};
