//! Who may ask at all: the Host, the Origin and the key of a request. Looked at before anything else of it.

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hyper::Method;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use sha2::{Digest, Sha256};

use fanlight_dialects::ApiError;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// Names by which programs of this machine call it.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// Wrong keys in a second, after which all are refused: nobody guesses 256 bits, and nobody floods the log.
const TRIES_MAX: u32 = 10;

/// The rules of a server.
pub struct Guard {
    /// Its port.
    pub port: u16,
    /// Other names that it may be called by.
    pub hosts: Vec<String>,
    /// Whether it may be called by any address, as one that others reach.
    pub any_address: bool,
    /// Pages that may use it.
    pub origins: Vec<String>,
    /// The hash of its key, if it has one.
    pub key: Option<[u8; 32]>,
    /// Since when wrong keys are counted, and how many there were.
    pub tries: Mutex<Option<(Instant, u32)>>,
}

/// The hash that a key is kept as.
pub fn key_hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

impl Guard {
    /// Refuses a request by its Host and Origin; returns the origin of a page that may read the answer.
    pub fn check_place<'a>(&self, parts: &'a Parts) -> Result<Option<&'a HeaderValue>, ApiError> {
        let mut hosts = parts.headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(ApiError::HostMissing) };
        let host = host.to_str().map_err(|_| ApiError::HostMissing)?;
        self.check_host(host)?;
        if let Some(authority) = parts.uri.authority() {
            self.check_host(authority.as_str())?;
        }
        let mut origins = parts.headers.get_all(ORIGIN).iter();
        let origin = origins.next();
        let Some(origin) = origin else { return self.check_site(parts).map(|()| None) };
        let text = origin.to_str().unwrap_or("(not readable)");
        if origins.next().is_none() && self.allows_origin(text) {
            return Ok(Some(origin));
        }
        Err(ApiError::Origin { found: text.to_owned() })
    }

    fn check_host(&self, host: &str) -> Result<(), ApiError> {
        let refused = || Err(ApiError::Host { found: host.chars().take(100).collect() });
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, Some(port)),
            _ => (host, None),
        };
        let port_is_ours = port.is_none_or(|port| port.parse() == Ok(self.port));
        let is_address = || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let mut names = LOOPBACK.into_iter().chain(self.hosts.iter().map(String::as_str));
        let is_ours = names.any(|ours| ours.eq_ignore_ascii_case(name));
        // A name can be made to point here by whoever owns it; an address cannot.
        if port_is_ours && (is_ours || self.any_address && is_address()) { Ok(()) } else { refused() }
    }

    fn allows_origin(&self, origin: &str) -> bool {
        let is_own = origin.strip_prefix("http://").is_some_and(|host| {
            let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse() == Ok(self.port));
            (has_port || self.port == 80) && self.check_host(host).is_ok()
        });
        is_own || self.origins.iter().any(|allowed| allowed == origin)
    }

    /// A browser that sends no Origin tells otherwise where a request comes from. A link may be followed.
    fn check_site(&self, parts: &Parts) -> Result<(), ApiError> {
        let is = |name: &HeaderName, value: &str| parts.headers.get(name).is_some_and(|v| v == value);
        let is_link = parts.method == Method::GET && is(&SEC_FETCH_MODE, "navigate");
        match is(&SEC_FETCH_SITE, "cross-site") && !is_link {
            true => Err(ApiError::Origin { found: "another site".into() }),
            false => Ok(()),
        }
    }

    /// Refuses a request without the key, where there is one.
    pub fn check_key(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(wanted) = &self.key else { return Ok(()) };
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text(&AUTHORIZATION).and_then(|value| {
            let (scheme, key) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
        });
        // Some clients send an empty token beside the other header.
        let given = bearer.filter(|key| !key.is_empty()).or_else(|| text(&API_KEY));
        // How long it takes to compare hashes tells nothing about the key.
        if given.is_some_and(|given| key_hash(given) == *wanted) {
            return Ok(());
        }
        Err(if self.counts_another_try() { ApiError::Key } else { ApiError::KeyTries })
    }

    /// Counts a wrong key; false when there were too many within the second.
    fn counts_another_try(&self) -> bool {
        let mut tries = self.tries.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = Instant::now();
        match &mut *tries {
            Some((since, count)) if now.duration_since(*since) < Duration::from_secs(1) => {
                *count = count.saturating_add(1);
                *count <= TRIES_MAX
            }
            _ => {
                *tries = Some((now, 1));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn guard() -> Guard {
        let (hosts, origins) = (vec!["box.lan".into()], vec!["https://notes.example".into()]);
        Guard { port: 8787, hosts, any_address: false, origins, key: None, tries: Mutex::new(None) }
    }

    fn check(guard: &Guard, uri: &str, headers: &[(&str, &str)]) -> Result<(), ApiError> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        guard.check_place(&request.body(()).unwrap().into_parts().0).map(drop)
    }

    #[test]
    fn g06_only_names_of_this_machine_are_served() {
        let status =
            |host: &str| check(&guard(), "/", &[("host", host)]).map_or_else(|e| e.status(), |()| 200);
        for host in ["localhost", "127.0.0.1:8787", "LOCALHOST:8787", "[::1]:8787", "[::1]", "Box.LAN:8787"] {
            assert_eq!(status(host), 200, "{host}");
        }
        let others = [
            "evil.example:8787",
            "127.0.0.1.evil.example",
            "localhost:80",
            "localhost.",
            "[::1]:1",
            "127.0.0.2",
            "localhost:8787:8787",
            "user@localhost",
            "::1",
            "",
        ];
        for host in others {
            assert_eq!(status(host), 403, "{host}");
        }
        let status =
            |uri: &str, headers: &[(&str, &str)]| check(&guard(), uri, headers).unwrap_err().status();
        assert_eq!(status("/", &[]), 400);
        assert_eq!(status("/", &[("host", "localhost"), ("host", "localhost")]), 400);
        assert_eq!(status("http://evil.example/", &[("host", "localhost")]), 403);
        let shared = Guard { any_address: true, ..guard() };
        assert!(check(&shared, "/", &[("host", "192.168.1.7:8787")]).is_ok());
        assert!(check(&shared, "/", &[("host", "evil.example:8787")]).is_err());
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let with = |headers: &[(&str, &str)]| {
            let all = [&[("host", "localhost:8787")], headers].concat();
            check(&guard(), "/v1/models", &all).is_ok()
        };
        for origin in ["http://localhost:8787", "http://127.0.0.1:8787", "https://notes.example"] {
            assert!(with(&[("origin", origin)]), "{origin}");
        }
        for origin in ["null", "http://localhost", "http://localhost:3000", "https://localhost:8787", "x"] {
            assert!(!with(&[("origin", origin)]), "{origin}");
        }
        assert!(!with(&[("origin", "http://localhost:8787"), ("origin", "http://localhost:8787")]));
        assert!(!with(&[("sec-fetch-site", "cross-site")]));
        assert!(with(&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]));
        assert!(with(&[("sec-fetch-mode", "cors")]), "a program");
    }

    #[test]
    fn the_key_is_read_from_either_header_and_not_guessed() {
        let guard = Guard { key: Some(key_hash("right")), ..guard() };
        let check = |name: &str, value: &str| {
            let name: HeaderName = name.parse().unwrap();
            guard.check_key(&HeaderMap::from_iter([(name, value.parse().unwrap())]))
        };
        assert_eq!(check("authorization", "Bearer right"), Ok(()));
        assert_eq!(check("authorization", "bearer  right"), Ok(()));
        assert_eq!(check("x-api-key", "right"), Ok(()));
        let empty = [("authorization", "Bearer "), ("x-api-key", "right")];
        let both = empty.map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()));
        assert_eq!(guard.check_key(&HeaderMap::from_iter(both)), Ok(()));
        let wrong = ["Bearer wrong", "Basic right", "right", "Bearer right2", "Bearer "];
        let refused = |_: usize| wrong.map(|value| check("authorization", value));
        assert!(refused(0).iter().all(|result| *result == Err(ApiError::Key)));
        assert!(refused(1).iter().all(|result| *result == Err(ApiError::Key)));
        assert!(refused(2).iter().all(|result| *result == Err(ApiError::KeyTries)));
        assert_eq!(check("x-api-key", "right"), Ok(()), "who has the key is not kept out");
    }
}
