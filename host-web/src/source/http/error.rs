//! What a server can answer instead of the range that was asked for.

use thiserror::Error;

/// An address cannot serve a model, or stopped doing so.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HttpError {
    /// Not an address that ranges can be asked of.
    #[error("{url} is no web address: give one that begins with http:// or https://")]
    Address {
        /// What was given.
        url: String,
    },
    /// A header that no request can carry.
    #[error("the request header {name:?} cannot be sent ({reason}): give another")]
    Header {
        /// Its name.
        name: String,
        /// What the browser said.
        reason: String,
    },
    /// No answer at all; the browser does not tell why.
    #[error(
        "no answer from {host} ({reason}): check the address and the network; a server of another site must \
         allow this page (cross-origin resource sharing)"
    )]
    Network {
        /// Who was asked.
        host: String,
        /// What the browser said.
        reason: String,
    },
    /// The body broke off or no byte came for a while.
    #[error(
        "the answer of {host} broke off after {received_bytes} of {wanted_bytes} bytes ({reason}): try again"
    )]
    Broken {
        /// Who answered.
        host: String,
        /// Bytes that came.
        received_bytes: u64,
        /// Bytes asked for.
        wanted_bytes: u64,
        /// What the browser said.
        reason: String,
    },
    /// The server answered with an error of its own.
    #[error("{host} answered {status} {status_text} to a request for a range: {advice}")]
    Status {
        /// Who answered.
        host: String,
        /// The code.
        status: u16,
        /// Its name.
        status_text: String,
        /// What to do.
        advice: &'static str,
        /// Seconds after which the server wants to be asked again.
        retry_after_s: Option<u32>,
    },
    /// The server sends the whole file when asked for a part.
    #[error(
        "{host} ignores range requests and would send the whole file for every part (answer {status}): \
         use a server that supports them, or download the file and open it from disk"
    )]
    IgnoresRanges {
        /// Who answered.
        host: String,
        /// The code.
        status: u16,
    },
    /// The part that came is not the part that was asked for.
    #[error(
        "bytes {wanted} were asked for, {host} answered with content-range \"{got}\": use another server"
    )]
    WrongRange {
        /// Who answered.
        host: String,
        /// Range asked for.
        wanted: String,
        /// Range of the answer.
        got: String,
    },
    /// The range of the answer is not to be seen.
    #[error(
        "{host} answered with a part of the file but not with which (no readable content-range): the server \
         must send it, and let other sites read it (access-control-expose-headers: content-range, etag)"
    )]
    HiddenRange {
        /// Who answered.
        host: String,
    },
    /// A part of a compressed file is no part of the file.
    #[error(
        "{host} sends ranges in content-encoding {encoding}, identity is needed: switch compression off there"
    )]
    Encoding {
        /// Who answered.
        host: String,
        /// What it used.
        encoding: String,
    },
    /// More bytes than the range holds.
    #[error("{host} sent more than the {wanted_bytes} bytes of the range asked for: use another server")]
    TooLong {
        /// Who answered.
        host: String,
        /// Bytes asked for.
        wanted_bytes: u64,
    },
    /// The file is another one than at the start of the load.
    #[error("the file on {host} changed while it was read ({what}): load it again")]
    Changed {
        /// Who answered.
        host: String,
        /// What differs.
        what: String,
    },
    /// The load was cancelled.
    #[error("the load was cancelled")]
    Cancelled,
}

impl HttpError {
    /// Whether asking again may help. `has_served` says that the same address has served a range before: a
    /// refusal after that is most often a signed address that has expired, and asking the original address
    /// renews it.
    pub fn is_transient(&self, has_served: bool) -> bool {
        match self {
            Self::Network { .. } | Self::Broken { .. } => true,
            Self::Status { status, .. } => match status {
                408 | 425 | 429 | 500 | 502 | 503 | 504 => true,
                401 | 403 | 404 | 410 => has_served,
                _ => false,
            },
            _ => false,
        }
    }

    /// Seconds that the server asked to wait.
    pub fn retry_after_s(&self) -> Option<u32> {
        match self {
            Self::Status { retry_after_s, .. } => *retry_after_s,
            _ => None,
        }
    }
}

/// What to do about a status.
pub(super) fn advice(status: u16) -> &'static str {
    match status {
        401 | 403 => "the address needs a permission that this page does not have, or it has expired",
        404 | 410 => "there is no such file: check the address",
        416 => "the file is shorter than it was: load it again",
        429 => "too many requests: wait a little and try again",
        500..=599 => "the server has a problem: try again later",
        _ => "check the address",
    }
}
