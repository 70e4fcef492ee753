//! Synthetic models: tiny ones of every architecture and weight type for tests, and random-weight files in
//! the shapes of real models for loading and speed.
//!
//! Deterministic: the same shape, types and seed give the same bytes.

pub mod metadata;
pub mod random;
pub mod scripted;
pub mod shape;
pub mod stream;
pub mod tensors;
pub mod text;
pub mod tiny;
pub mod vocabulary;

pub use scripted::{Scripted, Typed};
pub use shape::{Architecture, RopeRule, Shape};
pub use tensors::WeightTypes;
pub use tiny::{TinyModel, tiny};
pub use vocabulary::{Vocabulary, VocabularyKind};
