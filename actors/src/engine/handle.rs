//! What hosts hold: a cloneable handle of the engine.

use std::rc::Rc;

use fanlight_messages::error::{CostStoreError, GenerateError, LoadError};
use fanlight_messages::limits::REPLY_EVENTS;
use fanlight_messages::protocol::controller::{
    ControllerSnapshot, RecallCosts, TakeControllerSnapshot, TakeCosts,
};
use fanlight_messages::protocol::engine::*;
use fanlight_messages::protocol::memory::{ForgetMemory, StoreFault};
use fanlight_messages::protocol::telemetry::{EngineSnapshot, TakeSnapshot};

use fanlight_scheduler::record_name;

use super::shell::EngineMail;
use crate::controller::ControllerMail;
use crate::costs::{CostStore, Recalled, key};
use crate::kit::{Addr, Gauge, Gone, Latch, StreamReceiver, stream};
use crate::source::NamedSource;
use crate::telemetry::TelemetryLink;

/// A handle of an engine; clones ask the same engine.
#[derive(Clone)]
pub struct EngineHandle {
    engine: Addr<EngineMail>,
    controller: Addr<ControllerMail>,
    telemetry: TelemetryLink,
    /// A view of every actor.
    gauges: Rc<[Gauge]>,
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
    pub(super) fn new(
        engine: Addr<EngineMail>,
        controller: Addr<ControllerMail>,
        telemetry: TelemetryLink,
        gauges: Rc<[Gauge]>,
    ) -> Self {
        Self { engine, controller, telemetry, gauges }
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

    /// Gives the loaded model another budget; its files stay open.
    ///
    /// # Errors
    /// [`LoadError::OverBudget`] leaves the model as it was; after another error none is loaded.
    pub async fn set_budget(
        &self,
        request: SetBudget,
        progress: Latch<LoadProgress>,
    ) -> Result<BudgetSet, LoadError> {
        let wrap = |asked| EngineMail::Budget(asked, progress);
        self.engine.ask_with(request, wrap).await.map_err(load_gone)?
    }

    /// Starts a reply.
    ///
    /// # Errors
    /// [`GenerateError::Busy`] while another runs; otherwise what is wrong with the request.
    pub async fn generate(&self, request: Generate) -> Result<Generation, GenerateError> {
        let (sender, events) = stream(REPLY_EVENTS);
        let asked_us = self.telemetry.clock().now_us();
        let wrap = |asked| EngineMail::Generate(asked, sender, asked_us);
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

    /// The ids of a text or prompt; also while a reply runs.
    ///
    /// # Errors
    /// [`GenerateError::Busy`] while a model loads; what is wrong with the text otherwise.
    pub async fn tokenize(&self, input: TokenizeInput) -> Result<Rc<[u32]>, GenerateError> {
        self.engine.ask(Tokenize { input }).await.map_err(generate_gone)?
    }

    /// The text of ids, as a continuation; control tokens are left out. Also while a reply runs.
    ///
    /// # Errors
    /// [`GenerateError::Busy`] while a model loads, or an id that the model does not have.
    pub async fn detokenize(&self, ids: Vec<u32>) -> Result<String, GenerateError> {
        self.engine.ask(Detokenize { ids }).await.map_err(generate_gone)?
    }

    /// Forgets every reply that drafts could be made from, those in the host's store too.
    ///
    /// # Errors
    /// [`StoreFault::Unwritable`] when the store fails, while a reply runs, and when the engine is gone.
    pub async fn forget_memory(&self) -> Result<(), StoreFault> {
        let gone = |gone: Gone| StoreFault::Unwritable { reason: generate_gone(gone).to_string() };
        self.engine.ask(ForgetMemory).await.map_err(gone)?
    }

    /// Stops what runs and frees the model.
    ///
    /// # Errors
    /// [`LoadError::EngineGone`] only.
    pub async fn unload(&self) -> Result<(), LoadError> {
        self.engine.ask(Unload).await.map_err(load_gone)?
    }

    /// What can be seen of the engine now, at any time; of samples those from number `after` on, which is
    /// [`SnapshotTaken::next`](fanlight_messages::protocol::telemetry::SnapshotTaken::next) of the snapshot
    /// before, or 0.
    ///
    /// # Errors
    /// [`GenerateError::EngineGone`] only.
    pub async fn snapshot(&self, after: u64) -> Result<EngineSnapshot, GenerateError> {
        let kept = self.telemetry.addr().ask(TakeSnapshot { after }).await.map_err(generate_gone)?;
        let controller = self.controller_snapshot().await?;
        let actors = self.gauges.iter().map(Gauge::state).collect();
        Ok(EngineSnapshot { kept, controller, facts: self.telemetry.facts(), actors })
    }

    /// What the controller knows and does.
    ///
    /// # Errors
    /// [`GenerateError::EngineGone`] only.
    pub async fn controller_snapshot(&self) -> Result<ControllerSnapshot, GenerateError> {
        self.controller.ask(TakeControllerSnapshot).await.map_err(generate_gone)
    }

    /// Looks up what was measured of this model on an earlier visit, so that the first reply profits. To be
    /// called after the load.
    ///
    /// # Errors
    /// When the store cannot be read. A record that is damaged or foreign is no error: see [`Recalled`].
    pub async fn recall_costs(
        &self,
        store: &impl CostStore,
        loaded: &ModelLoaded,
    ) -> Result<Recalled, CostStoreError> {
        let key = key(loaded);
        let Some(record) = store.read(&record_name(&key)).await? else { return Ok(Recalled::Nothing) };
        let recalled = self.controller.ask(RecallCosts { key, record }).await;
        Ok(match recalled.map_err(|_| CostStoreError::EngineGone)? {
            Ok(()) => Recalled::Costs,
            Err(refused) => Recalled::Refused(refused),
        })
    }

    /// Keeps what was measured of this model, if anything was.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn keep_costs(
        &self,
        store: &impl CostStore,
        loaded: &ModelLoaded,
    ) -> Result<(), CostStoreError> {
        let key = key(loaded);
        let taken = self.controller.ask(TakeCosts { key: key.clone() }).await;
        match taken.map_err(|_| CostStoreError::EngineGone)? {
            Some(record) => store.write(&record_name(&key), &record).await,
            None => Ok(()),
        }
    }
}
