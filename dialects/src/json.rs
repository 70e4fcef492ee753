//! The body of a request as JSON.

use serde_json::Value;

use crate::error::ApiError;

/// Bytes of a request: 16 for each of the characters that the longest context takes.
pub const REQUEST_BYTES_MAX: usize = 16 << 20;

/// Parses a body. Nesting is bounded by the parser, at 128. A surrogate without its other half, which some
/// clients send for an emoji that they cut, becomes U+FFFD.
pub(crate) fn parse(body: &[u8]) -> Result<Value, ApiError> {
    if body.len() > REQUEST_BYTES_MAX {
        return Err(ApiError::TooLarge { limit_bytes: REQUEST_BYTES_MAX as u64 });
    }
    let parsed = match lone_surrogates(body) {
        places if places.is_empty() => serde_json::from_slice(body),
        places => {
            let mut mended = body.to_vec();
            places.iter().for_each(|&at| mended[at + 2..at + 6].copy_from_slice(b"fffd"));
            serde_json::from_slice(&mended)
        }
    };
    parsed.map_err(|error| ApiError::Json { reason: error.to_string() })
}

/// Where in a text of JSON an escape names half of a surrogate pair without the other half.
fn lone_surrogates(body: &[u8]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut at = 0;
    while at < body.len() {
        if body[at] != b'\\' {
            at += 1;
            continue;
        }
        match escaped_unit(body, at) {
            Some(0xD800..=0xDBFF) if matches!(escaped_unit(body, at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => {
                places.push(at);
                at += 6;
            }
            Some(_) => at += 6,
            None => at += 2,
        }
    }
    places
}

/// The UTF-16 unit of an escape `\uXXXX` at this place.
fn escaped_unit(body: &[u8], at: usize) -> Option<u16> {
    let digits = body.get(at..at + 6)?.strip_prefix(b"\\u")?;
    // The parse from text would take a sign.
    let digits = std::str::from_utf8(digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: &str) -> String {
        parse(body.as_bytes()).unwrap().as_str().unwrap().to_owned()
    }

    #[test]
    fn half_a_pair_is_replaced_and_a_whole_one_is_not() {
        assert_eq!(text(r#""a\ud83d\ude00b""#), "a😀b");
        assert_eq!(text(r#""a\ud83d""#), "a\u{fffd}");
        assert_eq!(text(r#""\ude00\ud83dx""#), "\u{fffd}\u{fffd}x");
        assert_eq!(text(r#""\ud83d\ud83d\ude00""#), "\u{fffd}😀");
        assert_eq!(text(r#""\\ud83d""#), "\\ud83d");
        assert_eq!(text(r#""\u0041""#), "A");
    }

    #[test]
    fn what_is_no_json_says_where() {
        for body in ["", "{", "[1,]", "\"\\ud8\"", "nul", "\u{fffd}"] {
            let ApiError::Json { reason } = parse(body.as_bytes()).unwrap_err() else { panic!("{body}") };
            assert!(reason.contains("line"), "{reason}");
        }
        assert!(matches!(parse(b"\"\xff\""), Err(ApiError::Json { .. })));
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        assert!(matches!(parse(deep.as_bytes()), Err(ApiError::Json { .. })));
        let long = vec![b' '; REQUEST_BYTES_MAX + 1];
        assert!(matches!(parse(&long), Err(ApiError::TooLarge { .. })));
    }
}
