//! The memory: outputs of earlier replies, and the store in which a host keeps them.

mod core;
mod mail;
mod shell;
mod storage;

pub use self::core::MemoryCore;
pub use mail::MemoryMail;
pub use shell::memory;
pub use storage::{MemoryStorage, NoStorage};

pub use fanlight_drafter::session::STORE_BYTES_MAX;
