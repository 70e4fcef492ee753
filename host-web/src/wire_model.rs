//! What the page says about models, and what it is told of them. The page's types are generated from these.

use serde::{Deserialize, Serialize};
use tsify::Tsify;

use fanlight_actors::pager::{InspectRequest, Inspection};
use fanlight_messages::plan::{BATCH_TOKENS_MAX, Budget, BufferOwner, GpuPlan, KvFormat, Preset};
use fanlight_messages::protocol::engine::{ModelLoaded, SetBudget};

use crate::error::{Failure, FailureKind};
use crate::wire::Notice;

/// MiB of host memory that may keep streamed weights between passes. The module's memory ends at 4 GiB and,
/// once grown, is not given back before the worker ends: half of it, so that headers, tokenizer, reads under
/// way and what allocating wastes fit beside it.
pub const CACHE_MIB_MAX: u32 = 2048;

/// How a model is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Tsify)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadOptions {
    /// Tokens of the context; absent for the default.
    #[tsify(optional)]
    pub context_len: Option<u32>,
    /// Format of the cache of keys and values; absent for `f16`.
    #[tsify(optional)]
    pub kv_type: Option<KvType>,
    /// Prompt tokens per batch, 1 to 512; absent for 512, or what suits the preset or budget.
    #[tsify(optional)]
    pub batch_tokens: Option<u32>,
    /// What the model may take on the GPU, by name; what does not fit streams through it. Absent for all of
    /// it, and for less when the GPU refuses that.
    #[tsify(optional)]
    pub preset: Option<PresetName>,
    /// The same in MiB, instead of a preset.
    #[tsify(optional)]
    pub budget_mib: Option<u32>,
    /// MiB of host memory that keep streamed weights between passes, 0 to [`CACHE_MIB_MAX`]; absent for 0.
    #[tsify(optional)]
    pub cache_mib: Option<u32>,
    /// SHA-256 of each file in hexadecimal digits, in the order of the parts; absent when they are not
    /// checked.
    #[serde(default)]
    #[tsify(optional)]
    pub sha256: Vec<String>,
}

impl LoadOptions {
    /// What a plan is asked for with these options.
    ///
    /// # Errors
    /// Of kind `request` when both a preset and a budget are given.
    pub fn inspect_request(&self) -> Result<InspectRequest, Failure> {
        let Self { preset, budget_mib, batch_tokens, .. } = *self;
        let SetBudget { budget, batch_tokens } =
            BudgetOptions { preset, budget_mib, batch_tokens }.request()?;
        let kv_format = self.kv_type.unwrap_or(KvType::F16).into();
        Ok(InspectRequest { context_len: self.context_len, batch_tokens, kv_format, budget })
    }

    /// Bytes of host memory that keep streamed weights between passes.
    ///
    /// # Errors
    /// Of kind `request` when they are more than the module's memory has room for.
    pub fn cache_bytes(&self) -> Result<u64, Failure> {
        let mib = self.cache_mib.unwrap_or_default();
        if mib > CACHE_MIB_MAX {
            let message = format!("a cache of {mib} MiB was asked for, at most {CACHE_MIB_MAX} are possible");
            return Err(Failure { kind: FailureKind::Request, message });
        }
        Ok(u64::from(mib) << 20)
    }
}

/// What a model may take on the GPU; all that it needs where nothing is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Tsify)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BudgetOptions {
    /// As in [`LoadOptions`].
    #[tsify(optional)]
    pub preset: Option<PresetName>,
    /// As in [`LoadOptions`].
    #[tsify(optional)]
    pub budget_mib: Option<u32>,
    /// As in [`LoadOptions`].
    #[tsify(optional)]
    pub batch_tokens: Option<u32>,
}

impl BudgetOptions {
    /// What the engine is asked for.
    ///
    /// # Errors
    /// Of kind `request` when both a preset and a budget are given.
    pub fn request(&self) -> Result<SetBudget, Failure> {
        if self.preset.is_some() && self.budget_mib.is_some() {
            let message = "a preset and a budget are given: give one of them".into();
            return Err(Failure { kind: FailureKind::Request, message });
        }
        let preset = self.preset.map(Preset::from);
        let sized = |mib: u32| Budget { bytes: u64::from(mib) << 20, ..Preset::Saver.budget() };
        let suited = match self.budget_mib {
            Some(_) => Preset::Saver.batch_tokens(),
            None => preset.map_or(BATCH_TOKENS_MAX, Preset::batch_tokens),
        };
        Ok(SetBudget {
            budget: preset.map(Preset::budget).or(self.budget_mib.map(sized)),
            batch_tokens: self.batch_tokens.unwrap_or(suited),
        })
    }
}

/// Budgets by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Tsify)]
#[serde(rename_all = "lowercase")]
pub enum PresetName {
    /// 512 MiB.
    Lite,
    /// 2 GiB.
    Saver,
    /// 6 GiB.
    Fast,
}

impl From<PresetName> for Preset {
    fn from(name: PresetName) -> Self {
        match name {
            PresetName::Lite => Self::Lite,
            PresetName::Saver => Self::Saver,
            PresetName::Fast => Self::Fast,
        }
    }
}

/// Format of the cache of keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Tsify)]
#[serde(rename_all = "lowercase")]
pub enum KvType {
    /// Half precision.
    F16,
    /// Single precision.
    F32,
}

impl From<KvType> for KvFormat {
    fn from(kv_type: KvType) -> Self {
        match kv_type {
            KvType::F16 => Self::F16,
            KvType::F32 => Self::F32,
        }
    }
}

impl From<KvFormat> for KvType {
    fn from(format: KvFormat) -> Self {
        match format {
            KvFormat::F16 => Self::F16,
            KvFormat::F32 => Self::F32,
        }
    }
}

/// An address, and what is known of the file there.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Tsify)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Address {
    /// `http:` or `https:`; of a split model that of any part.
    pub url: String,
    /// Request headers, name and value.
    #[serde(default)]
    #[tsify(optional)]
    pub headers: Vec<(String, String)>,
}

/// A weight format that a file uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
pub struct TypeUse {
    /// Its name.
    pub name: String,
    /// Bytes in the file.
    pub bytes: u64,
}

/// What the header of a model says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct ModelHead {
    /// `general.name`, or empty.
    pub name: String,
    /// `general.architecture`, or empty.
    pub architecture: String,
    /// Weights.
    pub parameters: u64,
    /// Bytes of the weights in the files.
    pub weight_bytes: u64,
    /// Formats of the weights, most bytes first.
    pub types: Vec<TypeUse>,
    /// Longest context that the model was made for, in tokens; 0 when the file does not say.
    pub context_len_max: u32,
    /// Whether the file brings a chat template that can be used.
    pub has_chat_template: bool,
    /// What a visitor should know about its tokenizer and chat template.
    pub warnings: Vec<Notice>,
}

impl From<&Inspection> for ModelHead {
    fn from(inspection: &Inspection) -> Self {
        let summary = &inspection.summary;
        let types = summary.types.iter();
        let mut types: Vec<TypeUse> = types
            .map(|used| TypeUse { name: used.tensor_type.name().to_owned(), bytes: used.bytes })
            .collect();
        types.sort_by_key(|used| std::cmp::Reverse(used.bytes));
        Self {
            name: summary.name.clone().unwrap_or_default(),
            architecture: summary.architecture.clone().unwrap_or_default(),
            parameters: summary.parameters,
            weight_bytes: summary.weight_bytes,
            types,
            context_len_max: summary.context_len.unwrap_or_default(),
            has_chat_template: inspection.has_chat_template(),
            warnings: inspection.text.iter().flatten().map(Notice::from).collect(),
        }
    }
}

/// What a model takes on the GPU, to the byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct MemoryPlan {
    /// Tokens of the context.
    pub context_len: u32,
    /// Prompt tokens per batch.
    pub batch_tokens: u32,
    /// Format of the cache.
    pub kv_type: KvType,
    /// All buffers.
    pub gpu_bytes: u64,
    /// Those of weights.
    pub weight_bytes: u64,
    /// Those of keys and values.
    pub kv_bytes: u64,
    /// Whether weights stream through the GPU, because not all of them fit.
    pub is_streamed: bool,
}

impl From<&GpuPlan> for MemoryPlan {
    fn from(plan: &GpuPlan) -> Self {
        let is_weight = |owner| {
            use BufferOwner::{Gathered, Page, Slot, Vectors};
            matches!(owner, Page { .. } | Vectors | Slot(_) | Gathered)
        };
        let is_cache = |owner| matches!(owner, BufferOwner::Keys { .. } | BufferOwner::Values { .. });
        Self {
            context_len: plan.request.context_len,
            batch_tokens: plan.request.batch_tokens,
            kv_type: plan.request.kv_format.into(),
            gpu_bytes: plan.total_bytes(),
            weight_bytes: plan.bytes_where(is_weight),
            kv_bytes: plan.bytes_where(is_cache),
            is_streamed: plan.stream.is_some(),
        }
    }
}

/// A model that was looked into and not loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
pub struct ModelInspection {
    /// What its header says.
    pub head: ModelHead,
    /// What it would take; absent when it cannot be run.
    #[tsify(optional)]
    pub plan: Option<MemoryPlan>,
    /// Why it cannot be run; absent when it can.
    #[tsify(optional)]
    pub problem: Option<Failure>,
}

impl From<Inspection> for ModelInspection {
    fn from(inspection: Inspection) -> Self {
        let head = ModelHead::from(&inspection);
        let problem = inspection.problem().cloned().map(Failure::from);
        let plan = inspection.planned.ok().filter(|_| problem.is_none()).map(|(_, plan)| (&plan).into());
        Self { head, plan, problem }
    }
}

/// A loaded model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct ModelCard {
    /// What its header says.
    pub head: ModelHead,
    /// What it takes.
    pub plan: MemoryPlan,
    /// Whether the GPU refused to hold all of it, so that weights stream through.
    pub was_reduced: bool,
    /// Tokens of its context.
    pub context_len: u32,
    /// Token ids.
    pub vocabulary_len: u32,
    /// Whether it can hold a conversation: without a usable chat template it continues plain text only.
    pub has_chat_template: bool,
    /// Bytes on the GPU.
    pub gpu_bytes: u64,
    /// Bytes read from its files, headers excluded.
    pub read_bytes: u64,
    /// What this GPU must not use for prompts, which makes them slow; absent when all is well.
    #[tsify(optional)]
    pub quarantined: Option<String>,
}

impl ModelCard {
    /// What a load, or another budget, has brought.
    pub fn new(head: &ModelHead, loaded: &ModelLoaded) -> Self {
        Self {
            head: head.clone(),
            plan: (&*loaded.plan).into(),
            was_reduced: loaded.was_reduced,
            context_len: loaded.context_len,
            vocabulary_len: loaded.vocabulary_len,
            has_chat_template: loaded.has_chat_template,
            gpu_bytes: loaded.gpu_bytes,
            read_bytes: loaded.read_bytes,
            quarantined: loaded.quarantined.as_ref().map(ToString::to_string),
        }
    }
}
