//! What hosts hold: a cloneable handle of the engine.

use std::rc::Rc;

use fanlight_messages::error::{GenerateError, LoadError};
use fanlight_messages::limits::REPLY_EVENTS;
use fanlight_messages::protocol::engine::*;
use fanlight_messages::protocol::telemetry::{SnapshotTaken, TakeSnapshot};

use super::shell::EngineMail;
use crate::kit::{Addr, Gone, Latch, StreamReceiver, stream};
use crate::source::NamedSource;
use crate::telemetry::TelemetryLink;

/// A handle of an engine; clones ask the same engine.
#[derive(Clone)]
pub struct EngineHandle {
    engine: Addr<EngineMail>,
    telemetry: TelemetryLink,
}

/// A reply that is being generated. Dropping it, or its events, stops the reply.
pub struct Generation {
    /// What was started.
    pub started: GenerationStarted,
    /// Its events; the last is `Finished` or `Failed`. As long as they are not read, nothing is generated.
    pub events: StreamReceiver<GenerationEvent>,
}

fn load_gone(_: Gone) -> LoadError {
    LoadError::EngineGone { actor: "engine" }
}

fn generate_gone(_: Gone) -> GenerateError {
    GenerateError::EngineGone { actor: "engine" }
}

impl EngineHandle {
    pub(super) fn new(engine: Addr<EngineMail>, telemetry: TelemetryLink) -> Self {
        Self { engine, telemetry }
    }

    /// Loads a model from its files, in place of the one before; `progress` is set as it goes.
    ///
    /// # Errors
    /// A [`LoadError`] by phase; no model is loaded then.
    pub async fn load(
        &self,
        request: Load,
        sources: Vec<NamedSource>,
        progress: Latch<LoadProgress>,
    ) -> Result<ModelLoaded, LoadError> {
        let wrap = |asked| EngineMail::Load(asked, sources, progress);
        self.engine.ask_with(request, wrap).await.map_err(load_gone)?
    }

    /// Starts a reply.
    ///
    /// # Errors
    /// [`GenerateError::Busy`] while another runs; otherwise what is wrong with the request.
    pub async fn generate(&self, request: Generate) -> Result<Generation, GenerateError> {
        let (sender, events) = stream(REPLY_EVENTS);
        let wrap = |asked| EngineMail::Generate(asked, sender);
        let started = self.engine.ask_with(request, wrap).await.map_err(generate_gone)??;
        Ok(Generation { started, events })
    }

    /// Stops the running reply or load, if there is one; returns when the engine is idle.
    ///
    /// # Errors
    /// [`GenerateError::EngineGone`] only.
    pub async fn cancel(&self) -> Result<(), GenerateError> {
        self.engine.ask(Cancel).await.map_err(generate_gone)
    }

    /// Forgets the conversation in the cache.
    ///
    /// # Errors
    /// [`GenerateError::Busy`] while a reply runs.
    pub async fn reset(&self) -> Result<(), GenerateError> {
        self.engine.ask(Reset).await.map_err(generate_gone)?
    }

    /// The ids of a text or prompt.
    ///
    /// # Errors
    /// [`GenerateError::Busy`] while a reply runs or a model loads; what is wrong with the text otherwise.
    pub async fn tokenize(&self, input: TokenizeInput) -> Result<Rc<[u32]>, GenerateError> {
        self.engine.ask(Tokenize { input }).await.map_err(generate_gone)?
    }

    /// The text of ids, as a continuation; control tokens are left out.
    ///
    /// # Errors
    /// [`GenerateError::Busy`], or an id that the model does not have.
    pub async fn detokenize(&self, ids: Vec<u32>) -> Result<String, GenerateError> {
        self.engine.ask(Detokenize { ids }).await.map_err(generate_gone)?
    }

    /// Stops what runs and frees the model.
    ///
    /// # Errors
    /// [`LoadError::EngineGone`] only.
    pub async fn unload(&self) -> Result<(), LoadError> {
        self.engine.ask(Unload).await.map_err(load_gone)?
    }

    /// What telemetry has kept.
    ///
    /// # Errors
    /// [`GenerateError::EngineGone`] only.
    pub async fn snapshot(&self) -> Result<SnapshotTaken, GenerateError> {
        self.telemetry.addr().ask(TakeSnapshot).await.map_err(generate_gone)
    }
}
