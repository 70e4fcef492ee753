//! The steps of a load: open, build the text side, plan, place.

use std::rc::Rc;

use fanlight_messages::control::END_IDS_MAX;
use fanlight_messages::device::AdapterKind;
use fanlight_messages::error::{DeviceError, LoadError};
use fanlight_messages::limits::{CONTEXT_LEN_DEFAULT, CONTEXT_LEN_MAX, CONTEXT_LEN_MIN, PLANS_MAX};
use fanlight_messages::plan::{BATCH_TOKENS_MAX, GpuPlan};
use fanlight_messages::program::Program;
use fanlight_messages::protocol::engine::{Load, LoadProgress, ModelLoaded};
use fanlight_messages::protocol::memory::MemoryKey;
use fanlight_messages::protocol::pager::{
    OpenModel, PlaceWeights, PlanResidency, ResidencyPlanned, WeightsPlaced,
};
use fanlight_messages::protocol::submitter::DescribeDevice;
use fanlight_messages::protocol::telemetry::ModelFacts;
use fanlight_models::gguf::ModelFile;
use fanlight_models::text::Tokenizer;
use fanlight_models::text::template::ChatTemplate;

use super::quarantine::Quarantine;
use super::shell::EngineLinks;
use crate::kit::{Gone, Latch, stream};
use crate::pager::PagerMail;
use crate::source::NamedSource;

/// What the engine keeps of a loaded model.
#[derive(Debug)]
pub(super) struct LoadedModel {
    pub tokenizer: Rc<Tokenizer>,
    /// The chat template, or why there is none: raw prompts work without.
    pub template: Result<ChatTemplate, String>,
    pub vocabulary_len: u32,
    pub context_len: u32,
    pub batch_tokens: u32,
    /// What it runs on.
    pub adapter: AdapterKind,
    /// Whether weights stream.
    pub streams: bool,
    /// What its plan was asked for.
    pub residency: PlanResidency,
    pub name: String,
    pub program: Rc<Program>,
    /// What it must not use on this device.
    pub quarantine: Quarantine,
}

impl LoadedModel {
    /// What telemetry shows of it when it lies on the device by `plan`.
    pub(super) fn facts(&self, plan: &GpuPlan) -> ModelFacts {
        let PlanResidency { budget, cache_bytes, .. } = self.residency;
        let budget_bytes = budget.map(|budget| budget.bytes);
        ModelFacts { budget_bytes, cache_bytes, ..ModelFacts::new(self.name.clone(), &self.program, plan) }
    }

    /// Whose replies its drafts may be made from.
    pub(super) fn memory_key(&self) -> MemoryKey {
        let tokenizer = self.tokenizer.tokenizer_hash().0;
        MemoryKey { tokenizer, vocabulary_len: self.vocabulary_len }
    }
}

fn text_error(error: impl std::fmt::Display) -> LoadError {
    LoadError::Text { reason: error.to_string() }
}

/// Loads a model; dropping the future abandons the load at the pager's next piece.
pub(super) async fn load(
    links: &EngineLinks,
    request: &Load,
    sources: Vec<NamedSource>,
    progress: Latch<LoadProgress>,
) -> Result<(LoadedModel, ModelLoaded), LoadError> {
    let gone = |_: Gone| LoadError::EngineGone { actor: "pager" };
    check_option("prompt batch", request.batch_tokens, 1, BATCH_TOKENS_MAX)?;
    let (file_place, mut file) = stream(1);
    let open = |asked| PagerMail::Open(asked, sources, file_place);
    let opened = links.pager.ask_with(OpenModel, open).await.map_err(gone)??;
    let file: Rc<ModelFile> =
        file.try_next().ok_or_else(|| text_error("the pager kept the file's metadata"))?;
    let tokenizer = Rc::new(Tokenizer::from_metadata(&file.metadata).map_err(text_error)?);
    if tokenizer.end_ids().len() > END_IDS_MAX as usize {
        let found = tokenizer.end_ids().len();
        return Err(text_error(format!("{found} ids end a reply, at most {END_IDS_MAX} are possible")));
    }
    let name = file.metadata.get_text("general.name").map_err(text_error)?.unwrap_or_default().into_owned();
    let template = ChatTemplate::from_metadata(&file.metadata, &tokenizer).map_err(|error| error.to_string());
    drop(file);

    let context_len = context_len(request.context_len, opened.program.context_len_max)?;
    let residency = PlanResidency {
        context_len,
        batch_tokens: request.batch_tokens,
        kv_format: request.kv_format,
        budget: request.budget,
        cache_bytes: request.cache_bytes,
    };
    let (ResidencyPlanned { plan, was_reduced }, placed) = place(links, &residency, &progress).await?;
    let adapter = links
        .submitter
        .ask(DescribeDevice)
        .await
        .map_err(|_| LoadError::EngineGone { actor: "submitter" })?;
    let vocabulary_len = opened.program.vocabulary_len;
    let has_chat_template = template.is_ok();
    let model = LoadedModel {
        tokenizer,
        template,
        vocabulary_len,
        context_len,
        batch_tokens: plan.request.batch_tokens,
        adapter: adapter.kind,
        streams: plan.stream.is_some(),
        residency,
        name: name.clone(),
        program: opened.program,
        quarantine: Quarantine::new(placed.quarantined.as_ref()),
    };
    let answer = ModelLoaded {
        name,
        context_len,
        vocabulary_len,
        has_chat_template,
        adapter,
        gpu_bytes: placed.peak_bytes,
        read_bytes: placed.read_bytes,
        plan,
        was_reduced,
        quarantined: placed.quarantined,
    };
    Ok((model, answer))
}

/// Plans and places; when the device refuses the plan, the pager plans smaller ones until one fits or none is
/// left.
pub(super) async fn place(
    links: &EngineLinks,
    residency: &PlanResidency,
    progress: &Latch<LoadProgress>,
) -> Result<(ResidencyPlanned, WeightsPlaced), LoadError> {
    let gone = |_: Gone| LoadError::EngineGone { actor: "pager" };
    let mut refusal = None;
    for _ in 0..PLANS_MAX {
        let planned = match links.pager.ask(residency.clone()).await.map_err(gone)? {
            // There is no smaller plan than the one that was refused.
            Err(LoadError::OverBudget { .. }) if refusal.is_some() => break,
            planned => planned?,
        };
        let place = |asked| PagerMail::Place(asked, progress.clone());
        match links.pager.ask_with(PlaceWeights, place).await.map_err(gone)? {
            Err(LoadError::Device(refused @ DeviceError::OutOfMemory { .. })) => refusal = Some(refused),
            placed => return Ok((planned, placed?)),
        }
    }
    Err(refusal.unwrap_or(DeviceError::NoModel).into())
}

fn check_option(option: &'static str, wanted: u32, min: u32, max: u32) -> Result<(), LoadError> {
    if (min..=max).contains(&wanted) {
        return Ok(());
    }
    let [wanted, min, max] = [wanted, min, max].map(u64::from);
    Err(LoadError::Option { option, wanted, min, max })
}

/// The context asked for, or the default where the file allows it.
pub(crate) fn context_len(wanted: Option<u32>, file_max: u32) -> Result<u32, LoadError> {
    let max = CONTEXT_LEN_MAX.min(file_max);
    let wanted = wanted.unwrap_or(CONTEXT_LEN_DEFAULT.min(max));
    // A file that promises less than the minimum is served as far as it goes.
    check_option("context", wanted, CONTEXT_LEN_MIN.min(max), max)?;
    Ok(wanted)
}
