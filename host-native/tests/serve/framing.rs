//! How requests are framed: what is ambiguous, too long or too slow is refused, and the next good one works.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::server::serve;

#[test]
fn ambiguous_and_oversized_requests_are_refused() {
    let server = serve("framing", &[]);
    let host = format!("Host: localhost:{}\r\n", server.port);
    let post = |head: &str, body: &str| {
        let text = format!("POST /v1/chat/completions HTTP/1.1\r\n{host}{head}\r\n{body}");
        server.raw(text.as_bytes()).status
    };
    assert_eq!(post("Content-Length: 2\r\nContent-Length: 3\r\nConnection: close\r\n", "{}x"), 400);
    assert_eq!(post("Content-Length: +2\r\nConnection: close\r\n", "{}"), 400);
    assert_eq!(post("Transfer-Encoding: gzip\r\nConnection: close\r\n", "{}"), 400);
    assert_eq!(
        post("Transfer-Encoding: chunked, gzip\r\nConnection: close\r\n", "2\r\n{}\r\n0\r\n\r\n"),
        400
    );
    // Both lengths: the chunks count, and nothing behind them is taken for another request.
    let head = "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n";
    let smuggled = format!("2\r\n{{}}\r\n0\r\n\r\nGET /v1/models HTTP/1.1\r\n{host}\r\n");
    let text = format!("POST /v1/chat/completions HTTP/1.1\r\n{host}{head}\r\n{smuggled}");
    let both = server.raw(text.as_bytes());
    assert_eq!((both.status, both.body.contains("HTTP/1.1")), (400, false), "{both:?}");
    assert_eq!(post("X: a\r\n b\r\nConnection: close\r\n", ""), 400, "a folded line");
    assert_eq!(post("Connection: close\r\nContent-Length: 17000000\r\n", "{"), 413);
    let long = format!("X: {}\r\n", "a".repeat(80 << 10));
    assert!([400, 431].contains(&post(&long, "")));
    let many = "X: a\r\n".repeat(200);
    assert!([400, 431].contains(&post(&many, "")));
    assert_eq!(server.raw(b"GET\r\n\r\n").status, 400);
    let bad = server.request("POST", "/v1/chat/completions", &[], "{\"messages\": [");
    assert!(bad.json()["error"]["message"].as_str().unwrap().starts_with("the body is not JSON"), "{bad:?}");
    assert_eq!(server.request("GET", "/v1/models", &[], "").status, 200);
}

#[test]
fn a_head_that_does_not_end_is_not_waited_for() {
    let server = serve("slow", &[]);
    let mut slow = server.connect();
    slow.write_all(b"GET /v1/models HTTP/1.1\r\nHost: loc").unwrap();
    let started = Instant::now();
    let mut answer = Vec::new();
    // Whether it is told why or the connection just ends, it ends.
    let _ = slow.read_to_end(&mut answer);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!(server.request("GET", "/v1/models", &[], "").status, 200);
}
