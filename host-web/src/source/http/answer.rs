//! Judges the head of an answer: is it exactly the range that was asked for? Pure.

use std::ops::Range;

use super::error::{HttpError, advice};

/// The parts of an answer's head that count. A header that a server of another site does not expose is
/// `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// Status code.
    pub status: u16,
    /// Its name.
    pub status_text: String,
    /// `content-range`.
    pub content_range: Option<String>,
    /// `content-encoding`.
    pub content_encoding: Option<String>,
    /// `etag`.
    pub etag: Option<String>,
    /// `retry-after`.
    pub retry_after: Option<String>,
}

/// What the first answer tells about the file, and every later one must repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    /// Bytes of the whole file.
    pub len: u64,
    /// Its version, when the server names one.
    pub etag: Option<String>,
}

/// A `content-range` of bytes: the range, and the length of the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ContentRange {
    /// `None` for `*`: the range asked for does not exist.
    range: Option<Range<u64>>,
    len: u64,
}

/// Reads `bytes FIRST-LAST/LENGTH` or `bytes */LENGTH`. An unknown length (`*`) is not accepted: it is what
/// a load is planned with.
fn parse(text: &str) -> Option<ContentRange> {
    let (unit, rest) = text.trim().split_once(' ')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (range, len) = rest.trim().split_once('/')?;
    let len = number(len)?;
    if range == "*" {
        return Some(ContentRange { range: None, len });
    }
    let (first, last) = range.split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    let is_sound = first <= last && last < len;
    is_sound.then(|| ContentRange { range: Some(first..last + 1), len })
}

/// Digits only: signs and spaces, which `parse` of the standard library forgives in part, are refused.
fn number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Beyond 2^53 the browser's own numbers are no longer exact.
    let value = text.parse().ok().filter(|value| *value < 1 << 53);
    value.filter(|_| is_plain)
}

/// Text of a server's, shortened for a message.
fn shown(text: &str) -> String {
    const CHARS_SHOWN: usize = 80;
    text.chars().take(CHARS_SHOWN).filter(|c| !c.is_control()).collect()
}

/// Judges the answer to the very first request, for the first byte of the file.
///
/// # Errors
/// What is wrong with it; a file without a byte is not an error.
pub fn first(host: &str, head: &Head) -> Result<Pinned, HttpError> {
    let range = head.content_range.as_deref().and_then(parse);
    if head.status == 416 && range.is_some_and(|range| range.len == 0) {
        return Ok(Pinned { len: 0, etag: head.etag.clone() });
    }
    let len = part(host, head, &(0..1))?;
    Ok(Pinned { len, etag: head.etag.clone() })
}

/// Judges the answer to a later request.
///
/// # Errors
/// What is wrong with it, [`HttpError::Changed`] when it is of another file.
pub fn next(host: &str, head: &Head, wanted: &Range<u64>, pinned: &Pinned) -> Result<(), HttpError> {
    let changed = |what: String| HttpError::Changed { host: host.to_owned(), what };
    let len = part(host, head, wanted)?;
    if len != pinned.len {
        return Err(changed(format!("{} bytes before, {len} now", pinned.len)));
    }
    match (&pinned.etag, &head.etag) {
        (Some(before), now) if now.as_ref() != Some(before) => {
            let now = now.as_deref().unwrap_or("none");
            Err(changed(format!("etag {} before, {} now", shown(before), shown(now))))
        }
        _ => Ok(()),
    }
}

/// Requires the very range that was asked for, unencoded; returns the length of the whole file.
fn part(host: &str, head: &Head, wanted: &Range<u64>) -> Result<u64, HttpError> {
    let host = host.to_owned();
    match head.status {
        206 => {}
        200..=299 => return Err(HttpError::IgnoresRanges { host, status: head.status }),
        status => {
            return Err(HttpError::Status {
                host,
                status,
                status_text: shown(&head.status_text),
                advice: advice(status),
                retry_after_s: head.retry_after.as_deref().and_then(|text| text.trim().parse().ok()),
            });
        }
    }
    if let Some(encoding) = head.content_encoding.as_deref().map(str::trim)
        && !encoding.is_empty()
        && !encoding.eq_ignore_ascii_case("identity")
    {
        return Err(HttpError::Encoding { host, encoding: shown(encoding) });
    }
    let Some(text) = head.content_range.as_deref() else { return Err(HttpError::HiddenRange { host }) };
    match parse(text) {
        Some(ContentRange { range: Some(range), len }) if range == *wanted => Ok(len),
        _ => {
            let wanted = format!("{}-{}", wanted.start, wanted.end.saturating_sub(1));
            Err(HttpError::WrongRange { host, wanted, got: shown(text) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(content_range: &str) -> Head {
        Head { status: 206, content_range: Some(content_range.to_owned()), ..Head::default() }
    }

    fn pinned() -> Pinned {
        Pinned { len: 1000, etag: Some("\"a\"".into()) }
    }

    #[test]
    fn e04_the_length_is_that_of_the_content_range() {
        assert_eq!(first("h", &head("bytes 0-0/1000")), Ok(Pinned { len: 1000, etag: None }));
        assert_eq!(first("h", &head("Bytes 0-0/5368709120")).map(|p| p.len), Ok(5 << 30));
        for bad in ["bytes 0-0/*", "bytes 0-0/0", "bytes 0-0", "items 0-0/9", "bytes 0-0/-9", "bytes 0-0/+9"]
        {
            let got = first("h", &head(bad));
            assert!(matches!(got, Err(HttpError::WrongRange { .. })), "{bad}: {got:?}");
        }
        let beyond = first("h", &head("bytes 0-0/9007199254740992"));
        assert!(matches!(beyond, Err(HttpError::WrongRange { .. })), "{beyond:?}");
    }

    #[test]
    fn an_empty_file_has_no_first_byte() {
        let empty = Head { status: 416, ..head("bytes */0") };
        assert_eq!(first("h", &empty).map(|p| p.len), Ok(0));
        let full = Head { status: 416, ..head("bytes */7") };
        assert!(matches!(first("h", &full), Err(HttpError::Status { status: 416, .. })));
    }

    #[test]
    fn e03_only_the_very_range_is_taken() {
        let wanted = 100..200;
        let judge = |head: Head| next("h", &Head { etag: Some("\"a\"".into()), ..head }, &wanted, &pinned());
        assert_eq!(judge(head("bytes 100-199/1000")), Ok(()));
        for bad in ["bytes 0-99/1000", "bytes 100-198/1000", "bytes 101-200/1000", "bytes */1000", "", "x"] {
            let got = judge(head(bad));
            assert!(matches!(got, Err(HttpError::WrongRange { .. })), "{bad}: {got:?}");
        }
        let full = Head { status: 200, ..Head::default() };
        assert!(matches!(judge(full), Err(HttpError::IgnoresRanges { status: 200, .. })));
        let multipart = Head { status: 206, ..Head::default() };
        assert!(matches!(judge(multipart), Err(HttpError::HiddenRange { .. })));
    }

    #[test]
    fn e04_encoded_parts_are_refused() {
        let encoded = |encoding: &str| {
            let head = Head { content_encoding: Some(encoding.into()), ..head("bytes 0-0/1000") };
            first("h", &head).map(|pinned| pinned.len)
        };
        assert_eq!(encoded("identity"), Ok(1000));
        assert_eq!(encoded(""), Ok(1000));
        assert!(matches!(encoded("gzip"), Err(HttpError::Encoding { .. })));
        assert!(matches!(encoded("identity, br"), Err(HttpError::Encoding { .. })));
    }

    #[test]
    fn a_file_that_changes_is_noticed() {
        let judge = |range: &str, etag: Option<&str>| {
            let head = Head { etag: etag.map(str::to_owned), ..head(range) };
            next("h", &head, &(0..10), &pinned())
        };
        assert_eq!(judge("bytes 0-9/1000", Some("\"a\"")), Ok(()));
        for (range, etag) in [
            ("bytes 0-9/1001", Some("\"a\"")),
            ("bytes 0-9/1000", Some("\"b\"")),
            ("bytes 0-9/1000", Some("W/\"a\"")),
            ("bytes 0-9/1000", None),
        ] {
            let got = judge(range, etag);
            assert!(matches!(got, Err(HttpError::Changed { .. })), "{range} {etag:?}: {got:?}");
        }
    }

    #[test]
    fn messages_do_not_repeat_a_servers_novel() {
        let got = first("h", &head(&"\u{7}x".repeat(10_000))).expect_err("no range").to_string();
        assert!(got.len() < 300 && !got.contains('\u{7}'), "{got}");
    }
}
