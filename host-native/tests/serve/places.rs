//! Who may ask: by host, by origin, by key; and what is told without asking the model.

use serde_json::json;

use crate::server::serve;

#[test]
fn g06_a_foreign_host_is_refused_before_anything_else() {
    let server = serve("hosts", &["--alias", "tiny"]);
    let body = json!({ "messages": [{ "role": "user", "content": "hi" }], "max_tokens": 1 }).to_string();
    let evil =
        ["evil.example:{PORT}", "127.0.0.1.evil.example", "localhost.evil.example:{PORT}", "localhost:1", ""];
    for host in evil {
        for (method, path, body) in
            [("GET", "/v1/models", ""), ("POST", "/v1/chat/completions", &*body), ("GET", "/nowhere", "")]
        {
            let refused = server.request(method, path, &[("Host", host)], body);
            assert_eq!(refused.status, 403, "{host} {path}: {refused:?}");
            assert_eq!(refused.json()["error"]["code"], "origin_not_allowed");
        }
    }
    for host in ["LOCALHOST:{PORT}", "[::1]:{PORT}", "127.0.0.1:{PORT}", "127.0.0.1"] {
        assert_eq!(server.request("GET", "/v1/models", &[("Host", host)], "").status, 200, "{host}");
    }
    assert_eq!(server.raw(b"GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n").status, 400);
    let twice = format!("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost:{}\r\n\r\n", server.port);
    assert_eq!(server.raw(twice.as_bytes()).status, 400);
    let absolute =
        "GET http://evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(server.raw(absolute.as_bytes()).status, 403);

    // Pages: their origin is told by the browser.
    let from = |headers: &[(&str, &str)]| server.request("POST", "/v1/chat/completions", headers, &body);
    assert_eq!(from(&[("Origin", "https://evil.example"), ("Content-Type", "text/plain")]).status, 403);
    assert_eq!(from(&[("Origin", "null")]).status, 403);
    assert_eq!(from(&[("Sec-Fetch-Site", "cross-site")]).status, 403);
    let preflight = server.request("OPTIONS", "/v1/models", &[("Origin", "https://evil.example")], "");
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (403, None));

    // What other programs must know of it.
    let url = format!("http://127.0.0.1:{}", server.port);
    let connect = |arguments: &[&str]| {
        let mut fanlight = std::process::Command::new(env!("CARGO_BIN_EXE_fanlight"));
        let output = fanlight.args(["connect", "--url", &url]).args(arguments).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    };
    let (printed, _) = connect(&[]);
    assert!(printed.contains(&format!("export OPENAI_BASE_URL='{url}/v1'\n")), "{printed}");
    assert!(printed.contains("export CLAUDE_CODE_MAX_CONTEXT_TOKENS='2048'\n"), "{printed}");
    assert_eq!(connect(&["--", "sh", "-c", "echo $ANTHROPIC_MODEL; exit 3"]), ("tiny\n".into(), Some(3)));

    // A program's request with any media type is read.
    let plain = from(&[("Content-Type", "application/x-www-form-urlencoded")]);
    assert_eq!(plain.status, 200, "{plain:?}");
    assert_eq!(plain.header("cache-control"), Some("no-store"));
    assert!(plain.header("x-request-id").is_some_and(|id| id.len() == 32));
    assert_eq!(plain.json()["model"], "tiny");
}

#[test]
fn a_key_and_an_origin_are_wanted_where_they_are_set() {
    let options = ["--key", "fl_right", "--allow-origin", "https://notes.example", "--strict-model"];
    let server = serve("keys", &options);
    let models = |headers: &[(&str, &str)]| server.request("GET", "/v1/models", headers, "");
    let refused = models(&[]);
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));
    assert_eq!(models(&[("Authorization", "Bearer fl_wrong")]).status, 401);
    assert_eq!(models(&[("Authorization", "Bearer fl_right")]).status, 200);
    assert_eq!(models(&[("Authorization", "Bearer "), ("x-api-key", "fl_right")]).status, 200);
    let anthropic = server.request("POST", "/v1/messages", &[], "{}");
    assert_eq!(anthropic.json()["error"]["type"], "authentication_error");
    assert_eq!(
        server.request("POST", "/api/show", &[], "{}").json()["error"].as_str().map(str::is_empty),
        Some(false)
    );
    // That somebody is there is no secret.
    assert_eq!(server.request("GET", "/health", &[], "").json(), json!({ "status": "ok" }));
    assert_eq!(server.request("HEAD", "/", &[], "").status, 200);

    let page = [("Origin", "https://notes.example"), ("Authorization", "Bearer fl_right")];
    let answer = models(&page);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://notes.example"));
    let preflight = server.request("OPTIONS", "/v1/messages", &page[..1], "");
    assert_eq!(preflight.status, 204);
    assert!(
        preflight.header("access-control-allow-headers").is_some_and(|names| names.contains("x-api-key"))
    );

    let key = ("Authorization", "Bearer fl_right");
    let body = json!({ "model": "gpt-9", "messages": [{ "role": "user", "content": "hi" }] }).to_string();
    let missing = server.request("POST", "/v1/chat/completions", &[key], &body);
    assert_eq!((missing.status, &missing.json()["error"]["code"]), (404, &json!("model_not_found")));
    let wrong = server.request("GET", "/v1/chat/completions", &[key], "");
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
    assert_eq!(server.request("GET", "/v1/embeddings", &[key], "").status, 404);
}
