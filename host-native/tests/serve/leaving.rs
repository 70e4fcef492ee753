//! Clients that leave while they wait, in the prompt and in the reply; and the order of those who stay.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::server::{Server, read_until, rest, serve};

/// A reply that takes far longer than a test: what ends it is its client.
const LONG: u32 = 1900;

fn chat(tokens: u32, text: &str, stream: bool) -> Value {
    json!({
        "messages": [{ "role": "user", "content": text }],
        "max_tokens": tokens,
        "stream": stream,
        // The end token never comes.
        "logit_bias": { "0": -10_000 },
    })
}

/// Sends a request and leaves its connection open.
fn send(server: &Server, body: &Value, session: &str) -> TcpStream {
    let mut stream = server.connect();
    let text = server.text("POST", "/v1/chat/completions", &[("session-id", session)], &body.to_string());
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

fn wait_for_text(stream: &TcpStream) {
    read_until(&mut BufReader::new(stream.try_clone().unwrap()), "\"content\":\"");
}

#[test]
fn g07_a_client_that_leaves_ends_its_reply_wherever_it_is() {
    let server = serve("leaving", &[]);
    let quick = || {
        let started = Instant::now();
        let answer = server.post("/v1/chat/completions", &chat(1, "hi", false));
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    };
    // In the reply, streamed.
    let stream = send(&server, &chat(LONG, "hi", true), "a");
    wait_for_text(&stream);
    drop(stream);
    quick();
    // In the reply, not streamed.
    let whole = send(&server, &chat(LONG, "hi", false), "a");
    std::thread::park_timeout(Duration::from_millis(500));
    drop(whole);
    quick();
    // In the prompt.
    let prompt = send(&server, &chat(LONG, &"sea ".repeat(400), true), "a");
    std::thread::park_timeout(Duration::from_millis(50));
    drop(prompt);
    quick();
    // While it waits for another.
    let running = send(&server, &chat(LONG, "hi", true), "a");
    wait_for_text(&running);
    let waiting: Vec<TcpStream> =
        (0..4).map(|i| send(&server, &chat(LONG, "hi", false), &i.to_string())).collect();
    std::thread::park_timeout(Duration::from_millis(500));
    drop(waiting);
    drop(running);
    quick();
}

#[test]
fn the_fifth_that_waits_is_told_to_come_again_and_counting_is_never_kept_waiting() {
    let server = serve("full", &[]);
    let running = send(&server, &chat(LONG, "hi", true), "a");
    wait_for_text(&running);
    let waiting: Vec<TcpStream> =
        (0..4).map(|i| send(&server, &chat(2, &format!("hi {i}"), false), &i.to_string())).collect();
    std::thread::park_timeout(Duration::from_millis(500));
    let refused = server.post("/v1/chat/completions", &chat(1, "hi", false));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (429, &json!("queue_full")));
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds));

    let started = Instant::now();
    let message = json!({ "messages": [{ "role": "user", "content": "hi" }] });
    let counts: Vec<Value> = (0..14)
        .map(|_| server.post("/v1/messages/count_tokens", &message).json()["input_tokens"].clone())
        .collect();
    assert!(
        counts[0].as_u64().is_some_and(|count| count > 0) && counts.iter().all(|count| *count == counts[0])
    );
    assert_eq!(server.request("GET", "/v1/models", &[], "").status, 200);
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());

    // Those who stay are served when the one before them leaves.
    drop(running);
    for mut stream in waiting {
        let answer = rest(&mut stream);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["usage"]["completion_tokens"], 2);
    }
}

#[test]
fn g08_a_stream_has_its_head_at_once() {
    let server = serve("head", &[]);
    let running = send(&server, &chat(LONG, "hi", true), "a");
    wait_for_text(&running);
    let waiting = send(&server, &chat(1, "ho", true), "b");
    let mut reader = BufReader::new(waiting.try_clone().unwrap());
    assert!(read_until(&mut reader, "HTTP/1.1").contains("200"));
    read_until(&mut reader, "\"role\":\"assistant\"");
    // It waits for the other: signs of life come by the clock.
    read_until(&mut reader, ": ping");
    drop(running);
    read_until(&mut reader, "[DONE]");
}
