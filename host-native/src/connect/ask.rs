//! One question to a server of this machine: which model it has.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer: one model takes a thousandth.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// What a server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    pub model: String,
    pub context_len: u64,
}

/// Asks a server.
pub fn ask(url: &str, key: Option<&str>) -> Result<Served> {
    let Some(host) = url.strip_prefix("http://").filter(|host| !host.contains('/')) else {
        bail!("{url} is not the address of a server: give http://HOST:PORT");
    };
    let start = || format!("no server answers at {url}: start one with fanlight serve MODEL");
    let address = if host.contains("]:") || !host.ends_with(']') && host.contains(':') {
        host.to_owned()
    } else {
        format!("{host}:80")
    };
    let address = address.to_socket_addrs().with_context(start)?.next().with_context(start)?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).with_context(start)?;
    stream.set_read_timeout(Some(PATIENCE)).with_context(start)?;
    let key = key.map_or_else(String::new, |key| format!("Authorization: Bearer {key}\r\n"));
    let request = format!("GET /v1/models HTTP/1.1\r\nHost: {host}\r\n{key}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).with_context(start)?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).with_context(start)?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let body: Value = serde_json::from_str(body).with_context(|| format!("{url} is no server of models"))?;
    if let Some(message) = body["error"]["message"].as_str() {
        bail!("{url}: {message}");
    }
    let model = &body["data"][0];
    match (model["id"].as_str(), model["context_length"].as_u64()) {
        (Some(id), Some(context_len)) => Ok(Served { model: id.to_owned(), context_len }),
        _ => bail!("{url} does not tell its model and context: is it fanlight serve?"),
    }
}
