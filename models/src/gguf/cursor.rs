//! A bounds-checked reader over the bytes at hand that knows how much file lies behind them.

use super::error::GgufError;

/// Why reading stopped.
pub(super) enum Stop {
    /// The bytes at hand end here, the file does not.
    NeedBytes,
    /// The file cannot be used.
    Refused(GgufError),
}

impl From<GgufError> for Stop {
    fn from(error: GgufError) -> Self {
        Self::Refused(error)
    }
}

/// Position in the bytes at hand. `behind_bytes` more follow them in the file.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
    behind_bytes: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], behind_bytes: u64) -> Self {
        Self { bytes, position: 0, behind_bytes }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Bytes of the file after the position.
    pub(super) fn left_bytes(&self) -> u64 {
        self.at_hand_bytes().saturating_add(self.behind_bytes)
    }

    /// Bytes at hand after the position.
    pub(super) fn at_hand_bytes(&self) -> u64 {
        (self.bytes.len() - self.position) as u64
    }

    /// The next `count` bytes. `what` names them in the error.
    pub(super) fn take(&mut self, count: u64, what: &str) -> Result<&'a [u8], Stop> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        if let Some(taken) = usize::try_from(count).ok().and_then(|count| rest.get(..count)) {
            self.position += taken.len();
            return Ok(taken);
        }
        self.check_left(count, what)?;
        Err(Stop::NeedBytes)
    }

    /// Refuses a claim of `count` bytes that the file cannot hold.
    pub(super) fn check_left(&self, count: u64, what: &str) -> Result<(), GgufError> {
        let left_bytes = self.left_bytes();
        if count <= left_bytes {
            return Ok(());
        }
        Err(GgufError::Truncated { what: what.to_owned(), wanted_bytes: count, left_bytes })
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Stop> {
        let bytes = self.take(N as u64, what)?;
        bytes.first_chunk::<N>().copied().ok_or(Stop::NeedBytes)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, Stop> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, Stop> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A length-prefixed string of at most `limit` bytes.
    pub(super) fn string(&mut self, limit: u64, what: &str) -> Result<&'a [u8], Stop> {
        let len = self.u64(what)?;
        self.check_left(len, what)?;
        check_limit(len, limit, || format!("the length of {what}"))?;
        self.take(len, what)
    }
}

/// Refuses `wanted` above `limit`.
pub(super) fn check_limit(wanted: u64, limit: u64, what: impl FnOnce() -> String) -> Result<(), GgufError> {
    if wanted <= limit { Ok(()) } else { Err(GgufError::OverLimit { what: what(), wanted, limit }) }
}
