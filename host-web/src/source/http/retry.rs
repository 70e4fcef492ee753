//! When a request is asked again, and after how long. Pure.

use super::error::HttpError;

/// Times that one read is asked again. With the delays below a server has about 15 seconds to come back.
pub const RETRIES_MAX: u32 = 5;
/// The first delay; each further one is twice as long.
pub const DELAY_MS: u32 = 500;
/// Longest delay, whatever the server asks for: a visitor is watching.
pub const DELAY_MS_MAX: u32 = 30_000;
/// A connection that brings no byte for so long is given up.
pub const STALL_MS: u32 = 30_000;

/// The tries of one read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retry {
    tries: u32,
}

impl Retry {
    /// Milliseconds to wait before asking again, or `None` when the error is final.
    pub fn delay_ms(&mut self, error: &HttpError, has_served: bool) -> Option<u32> {
        if self.tries >= RETRIES_MAX || !error.is_transient(has_served) {
            return None;
        }
        let own = DELAY_MS << self.tries;
        self.tries += 1;
        let asked = error.retry_after_s().map_or(0, |seconds| seconds.saturating_mul(1000));
        Some(own.max(asked).min(DELAY_MS_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, retry_after_s: Option<u32>) -> HttpError {
        let advice = "";
        HttpError::Status { host: "h".into(), status, status_text: String::new(), advice, retry_after_s }
    }

    #[test]
    fn e16_tries_are_finite_and_further_and_further_apart() {
        let mut retry = Retry::default();
        let delays: Vec<_> = std::iter::from_fn(|| retry.delay_ms(&status(503, None), false)).collect();
        assert_eq!(delays, [500, 1000, 2000, 4000, 8000]);
    }

    #[test]
    fn a_server_may_ask_for_patience_within_reason() {
        assert_eq!(Retry::default().delay_ms(&status(429, Some(3)), false), Some(3000));
        assert_eq!(Retry::default().delay_ms(&status(429, Some(u32::MAX)), false), Some(DELAY_MS_MAX));
    }

    #[test]
    fn e16_an_expired_address_is_renewed_but_a_refused_one_is_not() {
        assert_eq!(Retry::default().delay_ms(&status(403, None), false), None);
        assert_eq!(Retry::default().delay_ms(&status(403, None), true), Some(DELAY_MS));
        assert_eq!(Retry::default().delay_ms(&status(416, None), true), None);
        let ignores = HttpError::IgnoresRanges { host: "h".into(), status: 200 };
        assert_eq!(Retry::default().delay_ms(&ignores, true), None);
    }
}
