//! Numbers that nobody can tell beforehand.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Another one each time; the only source in the standard library is a hasher's random key.
pub fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// 32 letters and digits that no other call returns.
pub fn random_id() -> String {
    format!("{:016x}{:016x}", random_u64(), random_u64())
}
