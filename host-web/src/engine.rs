//! The engine as the worker's script sees it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use futures::future::{Either, select};
use futures::pin_mut;
use js_sys::Function;
use tsify::Ts;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use fanlight_actors::costs::Recalled;
use fanlight_actors::engine::{EngineHandle, start_engine_with};
use fanlight_actors::kit::{Clock, Exit, Latch, StreamReceiver, World};
use fanlight_actors::pager::{InspectRequest, inspect};
use fanlight_actors::source::NamedSource;
use fanlight_gpu::{AdapterPreference, GpuBackend};
use fanlight_messages::device::AdapterFacts;
use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::error::{GenerateError, LoadError};
use fanlight_messages::protocol::engine::*;
use fanlight_messages::protocol::memory::MemoryScope;
use fanlight_messages::wire::SnapshotWire;

use crate::error::{Failure, FailureKind};
use crate::records::{BrowserRecords, Notes, Records};
use crate::script::{call, chat_prompt, random_seed, tell, telling_progress, to_script};
use crate::source::{BlobSource, ModelStorage, check_hashes, open_model};
use crate::wire::*;
use crate::wire_model::*;

/// An engine on this worker's GPU.
#[wasm_bindgen]
pub struct Engine {
    handle: EngineHandle,
    backend: GpuBackend,
    adapter: AdapterFacts,
    /// Ends of actors, for the reason when the engine is gone.
    exits: RefCell<StreamReceiver<Exit>>,
    /// Breaks off the load at hand.
    stop: RefCell<Latch<bool>>,
    /// The model, by its header and as it was placed last.
    loaded: RefCell<Option<(ModelHead, ModelLoaded)>>,
    records: BrowserRecords,
    notes: Notes,
    is_verifying: Cell<bool>,
}

#[wasm_bindgen]
impl Engine {
    /// Opens the GPU and starts the engine on it; `records` keeps what outlasts a visit.
    ///
    /// # Errors
    /// A [`Failure`] of kind `no-gpu` when there is none.
    #[wasm_bindgen(unchecked_return_type = "Engine")]
    pub async fn open(records: Records) -> Result<Self, Failure> {
        let backend = GpuBackend::open(AdapterPreference::HighPerformance).await?;
        let adapter = backend.device().facts().clone();
        let records = BrowserRecords::new(records);
        World::run(|world, exits| async move {
            let handle = start_engine_with(&world, backend.clone(), Clock::real(), records.clone());
            Ok(Self {
                handle,
                backend,
                adapter,
                exits: RefCell::new(exits),
                stop: RefCell::new(Latch::new(false)),
                loaded: RefCell::default(),
                records,
                notes: Notes::default(),
                is_verifying: Cell::new(false),
            })
        })
        .await
    }

    /// What computes.
    ///
    /// # Errors
    /// None in practice: the conversion for the script is not proved to succeed.
    pub fn adapter(&self) -> Result<Ts<Adapter>, Failure> {
        to_script(&Adapter::from(&self.adapter))
    }

    /// What can be seen of the engine now, whatever it does; of samples those from number `after` on, which
    /// is `next` of the snapshot before, or 0.
    ///
    /// # Errors
    /// A [`Failure`] of kind `engine-gone` only.
    #[wasm_bindgen(unchecked_return_type = "SnapshotWire")]
    pub async fn snapshot(&self, after: f64) -> Result<JsValue, Failure> {
        // The cast saturates; a number that is none asks for everything.
        let snapshot = self.handle.snapshot(after as u64).await;
        let snapshot = snapshot.map_err(|error| self.failed(error.into()))?;
        to_script(&SnapshotWire::from(&snapshot)).map(JsValue::from)
    }

    /// Loads a model from picked files: one, or all parts of a split one in any order.
    ///
    /// # Errors
    /// A [`Failure`]; no model is loaded then, and the next load is served.
    #[wasm_bindgen(js_name = loadFiles, unchecked_return_type = "ModelCard")]
    pub async fn load_files(
        &self,
        files: Vec<web_sys::File>,
        options: Ts<LoadOptions>,
        #[wasm_bindgen(unchecked_param_type = "(progress: Progress) => void")] on_progress: Function,
    ) -> Result<JsValue, Failure> {
        self.load(async { Ok(file_sources(files)) }, options, on_progress, Latch::new(false)).await
    }

    /// Loads a model from an address that serves ranges; of a split one, the address of any part. What
    /// `storage` keeps of it is not fetched.
    ///
    /// # Errors
    /// A [`Failure`]; no model is loaded then, and the next load is served.
    #[wasm_bindgen(js_name = loadAddress, unchecked_return_type = "ModelCard")]
    pub async fn load_address(
        &self,
        address: Ts<Address>,
        storage: Option<ModelStorage>,
        options: Ts<LoadOptions>,
        #[wasm_bindgen(unchecked_param_type = "(progress: Progress) => void")] on_progress: Function,
    ) -> Result<JsValue, Failure> {
        let address = address.to_rust().map_err(|error| Failure::request(&error))?;
        let stop = Latch::new(false);
        let opening = async { open_model(&address, storage.as_ref(), &stop).await.map_err(Failure::from) };
        self.load(opening, options, on_progress, stop.clone()).await
    }

    /// The ids of a text, or of a conversation as a reply would continue it.
    ///
    /// # Errors
    /// A [`Failure`], of kind `busy` while a reply is generated.
    pub async fn tokenize(&self, request: Ts<TokenizeRequest>) -> Result<Vec<u32>, Failure> {
        let request = request.to_rust().map_err(|error| Failure::request(&error))?;
        let input = match request {
            TokenizeRequest::Chat { turns, think } => TokenizeInput::Prompt(chat_prompt(turns, think)),
            TokenizeRequest::Plain { text, parse_special, add_begin } => {
                TokenizeInput::Text { text, recognise_control: parse_special, add_begin }
            }
        };
        let ids = self.handle.tokenize(input).await;
        Ok(ids.map_err(|error| self.failed(error.into()))?.to_vec())
    }

    /// The text of ids, as a continuation; control tokens are left out.
    ///
    /// # Errors
    /// A [`Failure`], of kind `busy` while a reply is generated.
    pub async fn detokenize(&self, ids: Vec<u32>) -> Result<String, Failure> {
        self.handle.detokenize(ids).await.map_err(|error| self.failed(error.into()))
    }

    /// Forgets the conversation in the cache.
    ///
    /// # Errors
    /// A [`Failure`], of kind `busy` while a reply is generated.
    pub async fn reset(&self) -> Result<(), Failure> {
        self.handle.reset().await.map_err(|error| self.failed(error.into()))
    }

    /// Forgets every reply that drafts could be made from, those that the browser keeps too.
    ///
    /// # Errors
    /// A [`Failure`] of kind `other` when the browser does not let it, and while a reply is generated.
    #[wasm_bindgen(js_name = forgetMemory)]
    pub async fn forget_memory(&self) -> Result<(), Failure> {
        self.handle.forget_memory().await.map_err(|fault| Failure::new(FailureKind::Other, &fault))
    }

    /// Gives the loaded model another budget; its files are read again as far as that needs. While a reply is
    /// generated it takes effect after the pass under way, and the reply goes on.
    ///
    /// # Errors
    /// A [`Failure`]. Afterwards [`holds_model`](Self::holds_model) says whether the model is still there, as
    /// it was: so it is after a budget that is too small.
    #[wasm_bindgen(js_name = setBudget, unchecked_return_type = "ModelCard")]
    pub async fn set_budget(
        &self,
        options: Ts<BudgetOptions>,
        #[wasm_bindgen(unchecked_param_type = "(progress: Progress) => void")] on_progress: Function,
    ) -> Result<JsValue, Failure> {
        let options = options.to_rust().map_err(|error| Failure::request(&error))?;
        let request = options.request()?;
        call(&on_progress, &Progress::Header);
        let progress = Latch::new(LoadProgress::default());
        let setting = self.handle.set_budget(request, progress.clone());
        let set = telling_progress(setting, &progress, &on_progress).await;
        // Only a plan that cannot be made leaves the model as it was.
        if let Err(error) = &set
            && !matches!(error, LoadError::OverBudget { .. } | LoadError::Plan { .. } | LoadError::Busy)
        {
            self.loaded.replace(None);
        }
        let BudgetSet { plan, was_reduced, gpu_bytes, read_bytes, quarantined } =
            set.map_err(|error| self.failed(error.into()))?;
        let before = self.loaded.borrow().clone();
        let Some((head, loaded)) = before else { return Err(self.failed(no_model())) };
        let loaded = ModelLoaded { plan, was_reduced, gpu_bytes, read_bytes, quarantined, ..loaded };
        let card = ModelCard::new(&head, &loaded);
        // At once: a reply may run, and ends with what it finds here.
        self.loaded.replace(Some((head, loaded.clone())));
        self.recall_costs(&loaded).await;
        to_script(&card).map(JsValue::from)
    }

    /// Whether a model is loaded.
    #[wasm_bindgen(js_name = holdsModel)]
    pub fn holds_model(&self) -> bool {
        self.loaded.borrow().is_some()
    }

    /// Stops what runs and frees the model.
    ///
    /// # Errors
    /// A [`Failure`] of kind `engine-gone` only.
    pub async fn unload(&self) -> Result<(), Failure> {
        self.loaded.replace(None);
        self.handle.unload().await.map_err(|error| self.failed(error.into()))
    }

    /// Generates a reply. `on_event` is awaited: as long as its promise is pending, at most a few windows
    /// more are computed.
    ///
    /// # Errors
    /// A [`Failure`]; the next request is served.
    #[wasm_bindgen(unchecked_return_type = "ReplyEnd")]
    pub async fn generate(
        &self,
        request: Ts<ReplyRequest>,
        #[wasm_bindgen(unchecked_param_type = "(event: ReplyEvent) => Promise<void>")] on_event: Function,
    ) -> Result<JsValue, Failure> {
        let request = request.to_rust().map_err(|error| Failure::request(&error))?;
        let request = self.generate_request(request).await?;
        let generated = self.handle.generate(request).await;
        let mut generation = generated.map_err(|error| self.failed(error.into()))?;
        let reused_tokens = generation.started.reused_tokens;
        self.notes.fault(generation.started.memory_fault.take());
        tell(&on_event, &self.started(&generation.started)).await?;
        self.tell_notes(&on_event).await?;
        while let Some(event) = generation.events.next().await {
            let event = match event {
                GenerationEvent::Advanced { done, total } => ReplyEvent::Advanced { done, total },
                GenerationEvent::Prefilled { done, total } => ReplyEvent::Prefilled { done, total },
                GenerationEvent::Tokens { ids, text } => ReplyEvent::Tokens { ids, text },
                GenerationEvent::Resumed { same_adapter, .. } => ReplyEvent::Resumed { same_adapter },
                GenerationEvent::Finished(mut finished) => {
                    self.notes.fault(finished.memory_fault.take());
                    self.keep_costs().await;
                    self.tell_notes(&on_event).await?;
                    return to_script(&ReplyEnd::new(&finished, reused_tokens)).map(JsValue::from);
                }
                GenerationEvent::Failed(error) => return Err(self.failed(error.into())),
            };
            tell(&on_event, &event).await?;
        }
        Err(self.failed(GenerateError::EngineGone { actor: "engine" }.into()))
    }

    /// Stops the reply or load at hand; resolves when the engine is idle.
    ///
    /// # Errors
    /// A [`Failure`] of kind `engine-gone` only.
    pub async fn cancel(&self) -> Result<(), Failure> {
        let stop = self.stop.borrow().clone();
        stop.set(true);
        self.handle.cancel().await.map_err(|error| self.failed(error.into()))
    }

    /// Compares pipelines that must agree in every bit on this GPU.
    ///
    /// # Errors
    /// A [`Failure`] when the scope is none or the GPU fails; differences are in the answer.
    #[wasm_bindgen(unchecked_return_type = "Verification")]
    pub async fn verify(
        &self,
        scope: Ts<VerifyScope>,
        #[wasm_bindgen(unchecked_param_type = "(progress: Progress) => void")] on_progress: Function,
    ) -> Result<JsValue, Failure> {
        let scope = scope.to_rust().map_err(|error| Failure::request(&error))?;
        if self.is_verifying.replace(true) {
            let message = "the gpu is being checked already: wait for the result".into();
            return Err(Failure { kind: FailureKind::Busy, message });
        }
        let progress = |done, total| {
            let (done, total) = (done as u64, total as u64);
            call(&on_progress, &Progress::Pipelines { done, total });
        };
        let verdicts = self.backend.verify(scope.into(), progress).await;
        self.is_verifying.set(false);
        let verdicts = verdicts?;
        let differing =
            |name: &str, difference: &Option<String>| Some(format!("{name}: {}", difference.as_ref()?));
        let differences = verdicts.iter().filter_map(|v| differing(&v.name, &v.difference)).collect();
        to_script(&Verification { compared: verdicts.len() as u32, differences }).map(JsValue::from)
    }
}

impl Engine {
    async fn load(
        &self,
        opening: impl Future<Output = Result<Vec<NamedSource>, Failure>>,
        options: Ts<LoadOptions>,
        on_progress: Function,
        stop: Latch<bool>,
    ) -> Result<JsValue, Failure> {
        let options = options.to_rust().map_err(|error| Failure::request(&error))?;
        let cache_bytes = options.cache_bytes()?;
        self.stop.replace(stop.clone());
        call(&on_progress, &Progress::Header);
        let reading = async {
            let sources = opening.await?;
            let inspection = inspect(sources.clone(), options.inspect_request()?).await?;
            let head = ModelHead::from(&inspection);
            // An unsupported model fails here, before any of its weights is fetched.
            inspection.planned?;
            if !options.sha256.is_empty() {
                let told = |done, total| call(&on_progress, &Progress::Check { done, total });
                check_hashes(&sources, &options.sha256, told).await?;
            }
            Ok::<_, Failure>((head, sources))
        };
        let (head, sources) = {
            let stopped = stop.changed(0);
            pin_mut!(reading, stopped);
            match select(reading, stopped).await {
                Either::Left((read, _)) => read?,
                Either::Right(_) => return Err(LoadError::Cancelled.into()),
            }
        };
        let progress = Latch::new(LoadProgress::default());
        let InspectRequest { context_len, batch_tokens, kv_format, budget } = options.inspect_request()?;
        let request = Load { context_len, batch_tokens, kv_format, budget, cache_bytes };
        let loading = self.handle.load(request, sources, progress.clone());
        let loaded = telling_progress(loading, &progress, &on_progress).await;
        let loaded = loaded.map_err(|error| self.failed(error.into()))?;
        self.recall_costs(&loaded).await;
        let card = ModelCard::new(&head, &loaded);
        self.loaded.replace(Some((head, loaded)));
        to_script(&card).map(JsValue::from)
    }

    /// What the page is told when a reply begins.
    fn started(&self, started: &GenerationStarted) -> ReplyEvent {
        let loaded = self.loaded.borrow();
        let plan = loaded.as_ref().map(|(_, loaded)| (MemoryPlan::from(&*loaded.plan), loaded.gpu_bytes));
        ReplyEvent::Started {
            prompt_tokens: started.prompt_ids.len() as u32,
            reused_tokens: started.reused_tokens,
            memory_tokens: started.memory_tokens,
            kv_bytes: plan.map_or(0, |(plan, _)| plan.kv_bytes),
            gpu_bytes: plan.map_or(0, |(_, gpu_bytes)| gpu_bytes),
        }
    }

    /// Tells what was noted of the browser's records.
    async fn tell_notes(&self, on_event: &Function) -> Result<(), Failure> {
        for (code, message) in self.notes.take() {
            tell(on_event, &ReplyEvent::Warned { code, message }).await?;
        }
        Ok(())
    }

    /// Starts with what an earlier visit has measured of this model.
    async fn recall_costs(&self, loaded: &ModelLoaded) {
        match self.handle.recall_costs(&self.records, loaded).await {
            // A record of no use is replaced after the next reply.
            Ok(Recalled::Nothing | Recalled::Costs | Recalled::Refused(_)) => {}
            Err(error) => self.notes.refusal(error.to_string()),
        }
    }

    /// Keeps what was measured for the next visit.
    async fn keep_costs(&self) {
        let Some((_, loaded)) = self.loaded.borrow().clone() else { return };
        if let Err(error) = self.handle.keep_costs(&self.records, &loaded).await {
            self.notes.refusal(error.to_string());
        }
    }

    async fn generate_request(&self, request: ReplyRequest) -> Result<Generate, Failure> {
        let sampling = request.sampling(random_seed()).map_err(|error| Failure::request(&error))?;
        let prompt = match request.prompt {
            PromptText::Plain { text, parse_special: true } => Prompt::Raw(text),
            PromptText::Plain { text, parse_special: false } => {
                let input = TokenizeInput::Text { text, recognise_control: false, add_begin: true };
                let ids = self.handle.tokenize(input).await;
                Prompt::Ids(ids.map_err(|error| self.failed(error.into()))?)
            }
            PromptText::Chat { turns, think } => chat_prompt(turns, think),
        };
        let plain = Generate::new(prompt, request.token_limit);
        Ok(Generate {
            sampling: Rc::new(sampling),
            memory: request.memory.map_or(MemoryScope::Off, Into::into),
            stop: request.stop,
            width: match request.width {
                None => WidthPolicy::for_adapter(self.adapter.kind),
                Some(0) => WidthPolicy::Fixed(Width::Off),
                Some(nodes) => WidthPolicy::Fixed(Width::Nodes(nodes)),
            },
            window_steps: request.window_steps,
            frame_budget_ms: request.frame_budget_ms,
            windows_in_flight: request.windows_in_flight.unwrap_or(plain.windows_in_flight),
            queued_us: request.queued_us.unwrap_or_default(),
            ..plain
        })
    }

    /// A failure of the engine, with the reason when one of its actors ended.
    fn failed(&self, mut failure: Failure) -> Failure {
        if failure.kind == FailureKind::EngineGone
            && let Ok(mut exits) = self.exits.try_borrow_mut()
            && let Some(Exit { name, result: Err(reason) }) = exits.try_next()
        {
            failure.message = format!("{} ({name}: {reason})", failure.message);
        }
        failure
    }
}

/// Looks into picked files; no GPU is needed and no weight is read.
///
/// # Errors
/// A [`Failure`] when there is nothing to look into. A model that cannot be run is an answer.
#[wasm_bindgen(js_name = inspectFiles, unchecked_return_type = "ModelInspection")]
pub async fn inspect_files(files: Vec<web_sys::File>, options: Ts<LoadOptions>) -> Result<JsValue, Failure> {
    let options = options.to_rust().map_err(|error| Failure::request(&error))?;
    let inspection = inspect(file_sources(files), options.inspect_request()?).await?;
    to_script(&ModelInspection::from(inspection)).map(JsValue::from)
}

/// Looks into the model at an address; no GPU is needed and no weight is read.
///
/// # Errors
/// A [`Failure`] when there is nothing to look into. A model that cannot be run is an answer.
#[wasm_bindgen(js_name = inspectAddress, unchecked_return_type = "ModelInspection")]
pub async fn inspect_address(
    address: Ts<Address>,
    storage: Option<ModelStorage>,
    options: Ts<LoadOptions>,
) -> Result<JsValue, Failure> {
    let address = address.to_rust().map_err(|error| Failure::request(&error))?;
    let options = options.to_rust().map_err(|error| Failure::request(&error))?;
    let sources = open_model(&address, storage.as_ref(), &Latch::new(false)).await?;
    let inspection = inspect(sources, options.inspect_request()?).await?;
    to_script(&ModelInspection::from(inspection)).map(JsValue::from)
}

fn no_model() -> Failure {
    let message = "no model is loaded: load one first".into();
    Failure { kind: FailureKind::Request, message }
}

fn file_sources(files: Vec<web_sys::File>) -> Vec<NamedSource> {
    let named = |file: web_sys::File| NamedSource::new(file.name(), BlobSource::new(file.into()));
    files.into_iter().map(named).collect()
}
