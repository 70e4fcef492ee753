//! Errors on their way to the page: a kind for the page to act on, and a text for the visitor.

use std::error::Error;

use js_sys::Reflect;
use serde::{Deserialize, Serialize};
use tsify::Tsify;
use wasm_bindgen::{JsCast, JsValue};

use fanlight_messages::error::{DeviceError, GenerateError, LoadError};

use crate::source::HttpError;

/// What sort of failure it is, as far as the page does something different about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Tsify)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// No GPU that can be used.
    NoGpu,
    /// The GPU vanished; a new engine is needed.
    GpuLost,
    /// The GPU has no memory left, or not as much as the model needs.
    GpuMemory,
    /// The GPU refused something that it should not.
    GpuRefused,
    /// Bytes of the file cannot be read.
    Source,
    /// An address does not serve the file as it must.
    Server,
    /// The file is not a usable model.
    Model,
    /// No model is loaded, or the one that was is gone: load one.
    NoModel,
    /// The request is not possible.
    Request,
    /// The prompt has more tokens than the context.
    PromptTooLong,
    /// Something else is being done.
    Busy,
    /// It was cancelled.
    Cancelled,
    /// The engine ended; a new one is needed.
    EngineGone,
    /// Anything else.
    Other,
}

/// A failure as the page gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Tsify)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// What was wanted, what was there and what to do.
    pub message: String,
}

impl Failure {
    /// A failure with the text of an error.
    pub fn new(kind: FailureKind, error: &dyn Error) -> Self {
        Self { kind, message: error.to_string() }
    }

    /// A request that makes no sense.
    pub fn request(error: &dyn Error) -> Self {
        Self::new(FailureKind::Request, error)
    }
}

fn device_kind(error: &DeviceError) -> FailureKind {
    match error {
        DeviceError::Unavailable { .. } => FailureKind::NoGpu,
        DeviceError::Lost { .. } => FailureKind::GpuLost,
        DeviceError::OutOfMemory { .. } => FailureKind::GpuMemory,
        DeviceError::NoModel => FailureKind::NoModel,
        DeviceError::Refused { .. } => FailureKind::GpuRefused,
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Self::new(device_kind(&error), &error)
    }
}

impl From<HttpError> for Failure {
    fn from(error: HttpError) -> Self {
        let kind = match error {
            HttpError::Cancelled => FailureKind::Cancelled,
            HttpError::Address { .. } | HttpError::Header { .. } => FailureKind::Request,
            HttpError::Network { .. }
            | HttpError::Broken { .. }
            | HttpError::Status { .. }
            | HttpError::IgnoresRanges { .. }
            | HttpError::WrongRange { .. }
            | HttpError::HiddenRange { .. }
            | HttpError::Encoding { .. }
            | HttpError::TooLong { .. }
            | HttpError::Changed { .. } => FailureKind::Server,
        };
        Self::new(kind, &error)
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let kind = match &error {
            LoadError::Busy => FailureKind::Busy,
            LoadError::Option { .. } => FailureKind::Request,
            LoadError::Source { .. } => FailureKind::Source,
            LoadError::Header { .. } | LoadError::Model { .. } | LoadError::Text { .. } => FailureKind::Model,
            // The file is as good as before: another adapter or other options are wanted.
            LoadError::Plan { .. } => FailureKind::Request,
            LoadError::OverBudget { .. } => FailureKind::GpuMemory,
            LoadError::Device(device) => device_kind(device),
            LoadError::Cancelled => FailureKind::Cancelled,
            LoadError::EngineGone(_) => FailureKind::EngineGone,
        };
        Self::new(kind, &error)
    }
}

impl From<GenerateError> for Failure {
    fn from(error: GenerateError) -> Self {
        let kind = match &error {
            GenerateError::Busy => FailureKind::Busy,
            GenerateError::PromptTooLong { .. } => FailureKind::PromptTooLong,
            GenerateError::Device(device) => device_kind(device),
            GenerateError::Poisoned { .. } => FailureKind::Model,
            GenerateError::EngineGone(_) => FailureKind::EngineGone,
            GenerateError::NoModel => FailureKind::NoModel,
            GenerateError::Source { .. } => FailureKind::Source,
            GenerateError::EmptyPrompt
            | GenerateError::MessageTooLong { .. }
            | GenerateError::TokenLimit { .. }
            | GenerateError::Option { .. }
            | GenerateError::Sampling(_)
            | GenerateError::StopText { .. }
            | GenerateError::TokenId { .. }
            | GenerateError::Template { .. }
            | GenerateError::Text { .. } => FailureKind::Request,
        };
        Self::new(kind, &error)
    }
}

impl From<Failure> for JsValue {
    fn from(failure: Failure) -> Self {
        // Serialising a struct of two strings does not fail; if it did, the text is what counts.
        match failure.into_js() {
            Ok(value) => value.into(),
            Err(_) => Self::from_str(&failure.message),
        }
    }
}

/// What a thrown value says.
pub(crate) fn text_of(thrown: &JsValue) -> String {
    if let Some(error) = thrown.dyn_ref::<js_sys::Error>() {
        return format!("{}: {}", String::from(error.name()), String::from(error.message()));
    }
    // A DOMException is no Error of the language, but has the same two fields.
    let field = |name: &str| Reflect::get(thrown, &name.into()).ok().and_then(|value| value.as_string());
    match (field("name"), field("message"), thrown.as_string()) {
        (Some(name), Some(message), _) => format!("{name}: {message}"),
        (_, _, Some(text)) => text,
        _ => format!("{thrown:?}"),
    }
}
