//! A running server, and a client that is nothing but a socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fanlight_messages::TensorType;
use fanlight_tests::synth::{Architecture, tiny};
use serde_json::Value;

/// A server that ends with the test.
pub struct Server {
    child: Child,
    pub port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server of a model of one test, and waits until it is ready.
pub fn serve(name: &str, options: &[&str]) -> Server {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("serve-{name}.gguf"));
    let model = tiny(Architecture::Qwen2, TensorType::Q4_0, 7).build().unwrap();
    std::fs::write(&path, model.to_bytes()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fanlight"));
    command.arg("serve").arg(&path).args(["--port", "0", "--context", "2048"]).args(options);
    let mut child = command.env_remove("FANLIGHT_KEY").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
    let port = port.unwrap_or_else(|| panic!("no address: {line:?}, {:?}", child.wait()));
    Server { child, port }
}

/// A response, as far as it came.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Response {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Server {
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends bytes and reads until the server closes, which `Connection: close` asks for.
    pub fn raw(&self, bytes: &[u8]) -> Response {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        rest(&mut stream)
    }

    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        self.raw(self.text(method, path, headers, body).as_bytes())
    }

    /// A request as text; `{PORT}` in a header's value is the server's port.
    pub fn text(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text += &format!("Host: localhost:{}\r\n", self.port);
        }
        for (name, value) in headers {
            text += &format!("{name}: {}\r\n", value.replace("{PORT}", &self.port.to_string()));
        }
        if !body.is_empty() {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        text + "\r\n" + body
    }

    pub fn post(&self, path: &str, body: &Value) -> Response {
        self.request("POST", path, &[], &body.to_string())
    }
}

/// Reads a response to its end.
pub fn rest(stream: &mut TcpStream) -> Response {
    let mut bytes = Vec::new();
    // A server that refuses a request may close before it has read all of it.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { unchunked(body) } else { body.to_owned() };
    Response { status, head: head.to_owned(), body }
}

/// What is in the chunks of a body, as far as they came.
fn unchunked(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let Some(piece) = rest.get(..size).filter(|piece| !piece.is_empty()) else { break };
        out += piece;
        body = rest.get(size + 2..).unwrap_or_default();
    }
    out
}

/// Reads lines of a stream until one has this text.
pub fn read_until(reader: &mut impl BufRead, text: &str) -> String {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "it ended before {text:?}");
    }
    line
}
