//! Draft trees without a draft model: the tokens that followed the last occurrences of the current context,
//! mixed over match lengths (context mixing, in the family of PPM: Cleary and Witten 1984; Mahoney 2005).
//!
//! This is the CPU version of the drafting kernels, integer for integer, and the bench on which drafters are
//! compared. A draft never changes what is decoded, only how soon.

pub mod baseline;
mod history;
mod matching;
mod merge;
mod reliability;
mod replay;
pub mod session;
mod tree;

pub use history::History;
pub use matching::{Match, find_matches};
pub use merge::draft;
pub use reliability::{Evidence, Reliabilities, Visit};
pub use replay::{Drafter, Mixing, Recording, RecordingError, Replay, replay};
pub use tree::{DraftTree, Node};
