//! Before a loaded model uses a pipeline, it is compared with plain decoding on this device; what differs is
//! quarantined.

use std::collections::HashMap;
use std::rc::Rc;

use fanlight_messages::device::{Purpose, Quarantined};
use fanlight_messages::draft::Width;
use fanlight_messages::plan::BufferOwner;

use super::Runner;
use super::lower::PROMPT_BUCKET;
use crate::device::GpuError;
use crate::lab::Lab;
use crate::selftest::{Checked, SelfTestPlan, Verdicts, differing};

/// What has been compared, and what came of it.
#[derive(Debug)]
pub(super) struct Checks {
    /// What was found on this device before.
    verdicts: Rc<Verdicts>,
    prompts: Option<Quarantined>,
    /// By nodes.
    trees: HashMap<u32, Option<Quarantined>>,
}

impl Checks {
    /// Nothing is compared yet.
    pub(super) fn new(verdicts: Rc<Verdicts>) -> Self {
        Self { verdicts, prompts: None, trees: HashMap::new() }
    }

    /// Whether prompt batches must not be used.
    pub(super) fn forbid_prompts(&self) -> bool {
        self.prompts.is_some()
    }

    /// What is known of steps of so many nodes; `None` before they were compared.
    pub(super) fn of_tree(&self, nodes: u32) -> Option<&Option<Quarantined>> {
        self.trees.get(&nodes)
    }
}

impl Runner {
    /// Uses no pipelines of this purpose any more: prompts of several tokens are refused, or steps of so many
    /// nodes.
    pub fn quarantine(&mut self, found: Quarantined) {
        match found.purpose {
            Purpose::Prompts => self.checks.prompts = Some(found),
            Purpose::Tree(nodes) => {
                self.checks.trees.insert(nodes, Some(found));
            }
        }
    }

    /// Refuses steps of a width that is in quarantine.
    pub(super) fn check_allowed(&self, width: Width) -> Result<(), GpuError> {
        let Width::Nodes(nodes) = width else { return Ok(()) };
        match self.checks.of_tree(nodes) {
            Some(Some(found)) => {
                let kernel = format!("steps of {nodes} nodes");
                Err(GpuError::Kernel { kernel, reason: format!("in quarantine: {}", found.evidence) })
            }
            Some(None) | None => Ok(()),
        }
    }

    /// Refuses to run as if all weights were there when they stream.
    pub(super) fn check_resident(&self) -> Result<(), GpuError> {
        match self.plan.stream {
            None => Ok(()),
            Some(_) => Err(GpuError::Streams { wanted: "a submission of whole steps" }),
        }
    }

    /// Compares what prompts are evaluated with, unless it is in quarantine already; gives what they must not
    /// use.
    pub(super) async fn check_prompts(&mut self) -> Result<Option<Quarantined>, GpuError> {
        if self.checks.prompts.is_none() {
            let batch_tokens = self.plan.request.batch_tokens;
            let checked = Checked::Prompts { lane: PROMPT_BUCKET, batch_tokens };
            self.checks.prompts = self.check(Purpose::Prompts, checked).await?;
        }
        Ok(self.checks.prompts.clone())
    }

    /// Compares what steps of so many nodes are computed with.
    pub(super) async fn check_tree(&mut self, nodes: u32) -> Result<(), GpuError> {
        let checked = Checked::Tree { nodes, partial_rows: self.plan.partial_rows };
        let found = self.check(Purpose::Tree(nodes), checked).await?;
        self.checks.trees.insert(nodes, found);
        Ok(())
    }

    async fn check(&mut self, purpose: Purpose, checked: Checked) -> Result<Option<Quarantined>, GpuError> {
        // Also what is in flight of a load: the memory that is counted for uploads is free once they arrived.
        self.uploads.finish().await?;
        let bytes_max = self.plan.bytes_of(BufferOwner::Staging).unwrap_or(0);
        let lab = Lab::within(&self.device, self.pipelines.clone(), bytes_max);
        let plan = SelfTestPlan::of(&self.program, self.plan.request.kv_format);
        let packed_dot = self.device.facts().has_packed_dot;
        let SelfTestPlan { matrices, attention, .. } = plan;
        let key = (checked, matrices, attention);
        let verdicts = self.checks.verdicts.clone();
        let found = match verdicts.get(&key) {
            Some(known) => known,
            None => {
                let found = differing(&lab, checked, &key.1, &key.2, packed_dot).await?;
                verdicts.keep(key, found.clone());
                found
            }
        };
        Ok(found.map(|verdict| {
            let evidence = format!("{}: {}", verdict.name, verdict.difference.unwrap_or_default());
            Quarantined { purpose, evidence }
        }))
    }
}
