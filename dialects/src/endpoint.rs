//! Which path and method ask for what.

use crate::error::{ApiError, Dialect};
use crate::normal::NormalRequest;
use crate::reply::ReplyForm;
use crate::{anthropic, ollama, openai, responses};

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Whether somebody is there at all.
    Root,
    /// Whether the model is ready.
    Health,
    /// The list of models.
    Models,
    /// One model, by its name.
    Model(String),
    /// A reply.
    Reply(ReplyEndpoint),
    /// How many tokens a conversation has.
    CountTokens,
    /// Ollama's version.
    OllamaVersion,
    /// Ollama's list of models.
    OllamaTags,
    /// Ollama's list of loaded models.
    OllamaPs,
    /// What Ollama tells of a model.
    OllamaShow,
}

/// Endpoints that answer with a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyEndpoint {
    /// OpenAI's chat.
    ChatCompletions,
    /// OpenAI's text that goes on.
    Completions,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Messages,
    /// Ollama's chat.
    OllamaChat,
    /// Ollama's text that goes on.
    OllamaGenerate,
}

/// Of whom and by whom a reply is asked.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Positions of the context that is served.
    pub context_len: u32,
    /// What the client calls itself in the header of that name, or empty.
    pub originator: &'a str,
}

impl ReplyEndpoint {
    /// Reads a request.
    ///
    /// # Errors
    /// [`ApiError`] names the first field that cannot be served.
    pub fn read(
        self,
        body: &[u8],
        asked: Asked<'_>,
    ) -> Result<(NormalRequest, Box<dyn ReplyForm>), ApiError> {
        match self {
            Self::ChatCompletions => openai::read_chat(body),
            Self::Completions => openai::read_completion(body),
            Self::Responses => responses::read(body, asked.originator.starts_with("codex")),
            Self::Messages => anthropic::read(body),
            Self::OllamaChat => ollama::read_chat(body, asked.context_len),
            Self::OllamaGenerate => ollama::read_generate(body, asked.context_len),
        }
    }
}

impl Endpoint {
    /// What is asked by a method at a path; a path has no query.
    ///
    /// # Errors
    /// [`ApiError::Path`] and [`ApiError::Method`].
    pub fn find(method: &str, path: &str) -> Result<Self, ApiError> {
        let Some((allowed, endpoint)) = Self::at(path) else {
            return Err(ApiError::Path { path: path.to_owned() });
        };
        // HEAD asks for the head of what GET gives.
        if method == allowed || (method == "HEAD" && allowed == "GET") {
            return Ok(endpoint);
        }
        let (method, path) = (method.to_owned(), path.to_owned());
        Err(ApiError::Method { method, path, allowed })
    }

    fn at(path: &str) -> Option<(&'static str, Self)> {
        let got = match path {
            "/" => Some(Self::Root),
            "/health" | "/v1/health" => Some(Self::Health),
            "/v1/models" | "/models" => Some(Self::Models),
            "/api/version" => Some(Self::OllamaVersion),
            "/api/tags" => Some(Self::OllamaTags),
            "/api/ps" => Some(Self::OllamaPs),
            _ => path
                .strip_prefix("/v1/models/")
                .filter(|id| !id.is_empty())
                .map(|id| Self::Model(decoded(id))),
        };
        let posted = || match path {
            "/v1/chat/completions" | "/chat/completions" => Some(Self::Reply(ReplyEndpoint::ChatCompletions)),
            "/v1/completions" | "/completions" => Some(Self::Reply(ReplyEndpoint::Completions)),
            "/v1/responses" | "/responses" => Some(Self::Reply(ReplyEndpoint::Responses)),
            "/v1/messages" => Some(Self::Reply(ReplyEndpoint::Messages)),
            "/v1/messages/count_tokens" => Some(Self::CountTokens),
            "/api/chat" => Some(Self::Reply(ReplyEndpoint::OllamaChat)),
            "/api/generate" => Some(Self::Reply(ReplyEndpoint::OllamaGenerate)),
            "/api/show" => Some(Self::OllamaShow),
            _ => None,
        };
        got.map(|endpoint| ("GET", endpoint)).or_else(|| posted().map(|endpoint| ("POST", endpoint)))
    }

    /// Whether it answers without the server's key: that somebody is there is no secret.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Root | Self::Health)
    }
}

/// Whose shape an error at this path has.
pub fn dialect(path: &str) -> Dialect {
    match path {
        _ if path.starts_with("/api/") => Dialect::Ollama,
        _ if path.starts_with("/v1/messages") => Dialect::Anthropic,
        _ => Dialect::OpenAi,
    }
}

/// A segment of a path without its escapes, once; what is no escape stays.
fn decoded(segment: &str) -> String {
    let bytes = segment.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = segment.get(at + 1..at + 3).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        match hex.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if bytes[at] == b'%' => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_methods_lead_to_endpoints() {
        let chat = Endpoint::Reply(ReplyEndpoint::ChatCompletions);
        assert_eq!(Endpoint::find("POST", "/v1/chat/completions"), Ok(chat));
        assert_eq!(Endpoint::find("HEAD", "/"), Ok(Endpoint::Root));
        let model = |path: &str| Endpoint::find("GET", path);
        assert_eq!(model("/v1/models/a%2Fb%20c%zz"), Ok(Endpoint::Model("a/b c%zz".into())));
        let error = Endpoint::find("GET", "/v1/chat/completions").unwrap_err();
        assert_eq!((error.status(), error.to_string().contains("use POST")), (405, true));
        for path in ["/v1/models/", "/v1", "/../etc/passwd", "//", "/v1/embeddings", ""] {
            assert_eq!(model(path).unwrap_err().status(), 404, "{path}");
        }
    }
}
