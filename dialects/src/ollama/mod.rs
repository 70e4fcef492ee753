//! Ollama's dialect: chat, generate, and what it tells of models.

mod models;
mod reply;
mod request;

pub use models::{asked_model, ps, show, tags, version};
pub use request::{read_chat, read_generate};
