//! Plans that a device refused although they were within the budget, and what is tried instead.

use std::collections::BTreeMap;

use fanlight_messages::device::AdapterFacts;
use fanlight_messages::error::LoadError;
use fanlight_messages::plan::{Budget, GpuPlan, PlanRequest, Preset};
use fanlight_messages::program::Program;
use fanlight_pager::{PlanError, plan_resident, plan_within};

/// By the adapter's name, as long as smaller plans fit.
#[derive(Default)]
pub(super) struct Refusals(BTreeMap<String, Refusal>);

#[derive(Clone, Copy)]
struct Refusal {
    refused_bytes: u64,
    budget_bytes: u64,
}

impl Refusals {
    /// The adapter refused a plan of this size: the next one is a quarter smaller.
    pub(super) fn note(&mut self, adapter: &AdapterFacts, refused_bytes: u64) {
        let budget_bytes = refused_bytes / 4 * 3;
        self.0.insert(adapter.name.clone(), Refusal { refused_bytes, budget_bytes });
    }

    /// Plans within what is asked for and what the adapter allows; tells whether that is less.
    pub(super) fn plan(
        &mut self,
        program: &Program,
        request: PlanRequest,
        adapter: &AdapterFacts,
        asked: Option<Budget>,
    ) -> (Result<GpuPlan, PlanError>, bool) {
        let refusal = self.0.get(&adapter.name);
        let refusal = refusal.filter(|refusal| asked.is_none_or(|asked| asked.bytes > refusal.budget_bytes));
        let Some(refusal) = refusal.copied() else {
            let plan = match asked {
                None => plan_resident(program, request),
                Some(budget) => plan_within(program, request, budget),
            };
            return (plan, false);
        };
        let page_bytes = asked.unwrap_or(Preset::Saver.budget()).page_bytes;
        let planned = plan_reduced(program, request, refusal, page_bytes);
        if planned.is_err() {
            // Nothing smaller is left. What took the memory may be gone by the next load.
            self.0.remove(&adapter.name);
        }
        (planned, true)
    }
}

/// Plans within what the adapter allows, or else the least: it may fit although the next smaller budget does
/// not hold it.
fn plan_reduced(
    program: &Program,
    request: PlanRequest,
    refusal: Refusal,
    page_bytes: u64,
) -> Result<GpuPlan, PlanError> {
    let request =
        PlanRequest { batch_tokens: request.batch_tokens.min(Preset::Saver.batch_tokens()), ..request };
    let within = |bytes| plan_within(program, request, Budget { bytes, page_bytes });
    match within(refusal.budget_bytes) {
        Err(PlanError::Budget { wanted_bytes, .. }) if wanted_bytes < refusal.refused_bytes => {
            within(wanted_bytes)
        }
        planned => planned,
    }
}

/// Why there is no plan: too small a budget is told apart, so that a host can offer another.
pub(super) fn residency_error(error: PlanError) -> LoadError {
    match error {
        PlanError::Budget { wanted_bytes, budget_bytes } => {
            LoadError::OverBudget { wanted_bytes, budget_bytes }
        }
        other => plan_error(other),
    }
}

/// Why else there is none.
pub(super) fn plan_error(error: impl std::fmt::Display) -> LoadError {
    LoadError::Plan { reason: error.to_string() }
}
