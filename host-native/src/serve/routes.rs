//! One request, from its head to its response.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::*;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{mpsc, oneshot};

use fanlight_dialects::endpoint::{Asked, Endpoint, ReplyEndpoint, dialect};
use fanlight_dialects::{
    ApiError, Collected, Framing, NormalRequest, REQUEST_BYTES_MAX, ReplyEvent, ReplyFacts, ServedModel,
    anthropic, ollama, openai,
};

use super::body::ReplyBody;
use super::chance::random_id;
use super::guard::Guard;
use super::job::{EVENTS, Errand, Job};

/// Between two pieces of a body.
const BODY_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Characters of a session's name that count.
const SESSION_CHARS: usize = 128;

/// A response: known as a whole, or as it comes.
pub type Answer = Response<Either<Full<Bytes>, ReplyBody>>;

/// What all connections share.
pub struct Server {
    /// Who may ask.
    pub guard: Guard,
    /// The model, once it is loaded.
    pub model: OnceLock<ServedModel>,
    /// Whether a request for another model is refused.
    pub strict_model: bool,
    /// Whether requests are printed.
    pub logs: bool,
    /// To the engine's thread.
    pub errands: mpsc::Sender<Errand>,
}

/// Answers a request, whatever it is.
pub async fn respond(server: Arc<Server>, request: Request<Incoming>) -> Answer {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let request_id = random_id();
    let path = parts.uri.path().to_owned();
    let page = server.guard.check_place(&parts);
    let mut answer = match &page {
        Ok(page) => {
            let answered = serve(&server, &parts, body, page.is_some()).await;
            answered.unwrap_or_else(|error| refusal(&error, &path, &request_id))
        }
        Err(error) => refusal(error, &path, &request_id),
    };
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::from_str(&request_id) {
        headers.insert("x-request-id", id);
    }
    if let Ok(Some(origin)) = page {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(VARY, HeaderValue::from_static("origin"));
    }
    if server.logs {
        let (method, status, ms) = (&parts.method, answer.status().as_u16(), started.elapsed().as_millis());
        eprintln!("fanlight: {method} {path} {status} {ms} ms");
    }
    answer
}

fn refusal(error: &ApiError, path: &str, request_id: &str) -> Answer {
    let mut answer = json(&error.body(dialect(path), request_id));
    *answer.status_mut() = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = answer.headers_mut();
    if let Some(seconds) = error.retry_after_s() {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    match error {
        ApiError::Key => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        ApiError::Method { allowed, .. } => drop(headers.insert(ALLOW, HeaderValue::from_static(allowed))),
        // What is left of the body is not read.
        ApiError::TooLarge { .. } | ApiError::BodyLate => {
            drop(headers.insert(CONNECTION, HeaderValue::from_static("close")));
        }
        _ => {}
    }
    answer
}

fn json(value: &serde_json::Value) -> Answer {
    let mut answer = Response::new(Either::Left(Full::from(value.to_string())));
    let media_type = HeaderValue::from_static(Framing::Json.media_type());
    answer.headers_mut().insert(CONTENT_TYPE, media_type);
    answer
}

/// Serves a request whose Host and Origin are good.
async fn serve(server: &Server, parts: &Parts, body: Incoming, is_of_page: bool) -> Result<Answer, ApiError> {
    if parts.method == Method::OPTIONS && is_of_page {
        return Ok(preflight());
    }
    let endpoint = Endpoint::find(parts.method.as_str(), parts.uri.path())?;
    if !endpoint.is_open() {
        server.guard.check_key(&parts.headers)?;
    }
    match endpoint {
        Endpoint::Root => Ok(text("Fanlight is running. Clients of OpenAI's interface find it at /v1.\n")),
        Endpoint::Health => {
            server.model()?;
            Ok(json(&serde_json::json!({ "status": "ok" })))
        }
        Endpoint::Models => Ok(json(&openai::models(server.model()?))),
        Endpoint::Model(id) => {
            let model = server.model()?;
            match model.id == id {
                true => Ok(json(&openai::model(model))),
                false => Err(ApiError::Model { wanted: id, served: model.id.clone() }),
            }
        }
        Endpoint::Reply(endpoint) => server.reply(parts, body, endpoint).await,
        Endpoint::CountTokens => {
            server.model()?;
            let request = anthropic::read_count(&read(body).await?)?;
            server.check_model(&request.model)?;
            let tokens = server.count(request).await?;
            Ok(json(&serde_json::json!({ "input_tokens": tokens })))
        }
        Endpoint::OllamaVersion => Ok(json(&ollama::version())),
        Endpoint::OllamaTags => Ok(json(&ollama::tags(server.model()?))),
        Endpoint::OllamaPs => Ok(json(&ollama::ps(server.model()?))),
        Endpoint::OllamaShow => {
            let asked = ollama::asked_model(&read(body).await?)?;
            server.check_model(&asked)?;
            Ok(json(&ollama::show(server.model()?)))
        }
    }
}

/// What a page of an allowed origin may send.
fn preflight() -> Answer {
    let mut answer = Response::new(Either::Left(Full::default()));
    *answer.status_mut() = StatusCode::NO_CONTENT;
    let headers = answer.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    let allowed = "authorization, content-type, x-api-key, anthropic-version, anthropic-beta";
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    answer
}

fn text(text: &'static str) -> Answer {
    let mut answer = Response::new(Either::Left(Full::from(text)));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

/// Reads a body to its end.
async fn read(body: Incoming) -> Result<Vec<u8>, ApiError> {
    let too_large = || ApiError::TooLarge { limit_bytes: REQUEST_BYTES_MAX as u64 };
    // Refused before it is sent, where its length is known.
    if body.size_hint().lower() > REQUEST_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let mut body = body;
    let mut bytes = Vec::new();
    loop {
        let frame = tokio::time::timeout(BODY_PAUSE_MAX, body.frame()).await;
        let frame = match frame.map_err(|_| ApiError::BodyLate)? {
            None => return Ok(bytes),
            Some(frame) => frame.map_err(|error| ApiError::Json { reason: error.to_string() })?,
        };
        let Some(piece) = frame.data_ref() else { continue };
        if bytes.len() + piece.len() > REQUEST_BYTES_MAX {
            return Err(too_large());
        }
        bytes.extend_from_slice(piece);
    }
}

impl Server {
    fn model(&self) -> Result<&ServedModel, ApiError> {
        let loading = || ApiError::NoModel { reason: "the model is still loading: try again soon".into() };
        self.model.get().ok_or_else(loading)
    }

    /// One model is loaded and answers for all names, since many programs have fixed lists, unless that is
    /// not wanted.
    fn check_model(&self, wanted: &str) -> Result<(), ApiError> {
        let served = &self.model()?.id;
        if !self.strict_model || wanted.is_empty() || wanted == served {
            return Ok(());
        }
        Err(ApiError::Model { wanted: wanted.to_owned(), served: served.clone() })
    }

    async fn count(&self, request: NormalRequest) -> Result<u32, ApiError> {
        let (answer, counted) = oneshot::channel();
        let errand = Errand::Count(Box::new(request), answer);
        self.errands.send(errand).await.map_err(|_| stopping())?;
        counted.await.map_err(|_| stopping())?
    }

    async fn reply(
        &self,
        parts: &Parts,
        body: Incoming,
        endpoint: ReplyEndpoint,
    ) -> Result<Answer, ApiError> {
        let served = self.model()?;
        let originator = parts.headers.get("originator").and_then(|value| value.to_str().ok());
        let originator = originator.unwrap_or_default();
        let (request, form) =
            endpoint.read(&read(body).await?, Asked { context_len: served.context_len, originator })?;
        self.check_model(&request.model)?;
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let facts = ReplyFacts { id: random_id(), created: since_epoch.as_secs(), model: served.id.clone() };
        let (streams, session) = (request.stream, session(parts, &request));
        let (admitted, answer) = oneshot::channel();
        let (events, mut received) = mpsc::channel(EVENTS);
        let job = Box::new(Job { request, session, admitted, events });
        self.errands.send(Errand::Reply(job)).await.map_err(|_| stopping())?;
        let prompt_tokens = answer.await.map_err(|_| stopping())??;
        if streams {
            let mut writer = form.stream(facts);
            let media_type = HeaderValue::from_static(writer.framing().media_type());
            let mut first = Vec::new();
            writer.write(&ReplyEvent::Admitted { prompt_tokens }, &mut first);
            let body = ReplyBody::new(received, writer, first);
            let mut answer = Response::new(Either::Right(body));
            answer.headers_mut().insert(CONTENT_TYPE, media_type);
            answer.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
            return Ok(answer);
        }
        let mut collected = Collected::default();
        while let Some(event) = received.recv().await {
            collected.take(&event)?;
            if matches!(event, ReplyEvent::Ended(_)) {
                return Ok(json(&form.whole(&facts, &collected)));
            }
        }
        Err(stopping())
    }
}

fn stopping() -> ApiError {
    ApiError::NoModel { reason: "the server is stopping: start it again".into() }
}

/// What requests of one conversation have in common: what the client says, or who it is.
fn session(parts: &Parts, request: &NormalRequest) -> String {
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let said = ["x-claude-code-session-id", "session-id", "x-session-affinity", "x-session-id"];
    let said = said.into_iter().find_map(header).or(request.session.as_deref());
    said.or_else(|| header("user-agent")).unwrap_or_default().chars().take(SESSION_CHARS).collect()
}
