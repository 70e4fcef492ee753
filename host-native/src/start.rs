//! An engine with a model, for the commands that talk to it for long.

use std::path::Path;

use anyhow::{Context, Result};

use fanlight_actors::engine::{EngineHandle, start_engine};
use fanlight_actors::kit::{Clock, Latch, World};
use fanlight_gpu::{AdapterPreference, GpuBackend};
use fanlight_messages::protocol::engine::{Load, LoadProgress, ModelLoaded};

use crate::files::open_model;
use crate::load::with_progress;
use crate::options::{BudgetOptions, Kv};
use crate::report;
use crate::stop::Interrupts;

/// What is loaded, and how.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// The model's file, or its name in the library.
    pub model: &'a Path,
    /// Positions of the context.
    pub context: Option<u32>,
    /// Cache format.
    pub kv: Kv,
    /// What it may take.
    pub budget: &'a BudgetOptions,
}

impl Start<'_> {
    /// Loads under a progress bar; `None` when it was interrupted.
    pub async fn load(
        self,
        world: &World,
        interrupts: &mut Interrupts,
    ) -> Result<Option<(EngineHandle, ModelLoaded)>> {
        let sources = open_model(self.model, self.budget.reads())?;
        let backend = GpuBackend::open(AdapterPreference::HighPerformance).await?;
        let handle = start_engine(world, backend, Clock::real());
        let request = Load {
            context_len: self.context,
            batch_tokens: self.budget.batch_tokens(None),
            kv_format: self.kv.into(),
            budget: self.budget.budget(),
            ..Load::default()
        };
        let progress = Latch::new(LoadProgress::default());
        let loading = handle.load(request, sources, progress.clone());
        let Some(loaded) = with_progress(loading, &progress, interrupts, false).await else {
            return Ok(None);
        };
        let loaded = loaded.with_context(|| self.model.display().to_string())?;
        report::quarantined(&loaded.quarantined);
        Ok(Some((handle, loaded)))
    }
}
