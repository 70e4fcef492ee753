//! Another budget for the model that is loaded.

use fanlight_messages::error::{Gone, LoadError};
use fanlight_messages::protocol::controller::ForgetCosts;
use fanlight_messages::protocol::engine::{BudgetSet, SetBudget};
use fanlight_messages::protocol::pager::{PlanResidency, ResidencyPlanned, WeightsPlaced};

use super::door::{BudgetAsked, Door, Stop};
use super::load::place;
use super::state::{Engine, unless_gone};
use crate::controller::ControllerMail;

impl Engine {
    /// Plans and places the model under another budget; tells whether there is a model still, and what
    /// stopped it.
    pub(super) async fn set_budget(
        &mut self,
        (asked, progress): BudgetAsked,
        door: &mut Door,
    ) -> Result<(bool, Option<Stop>), Gone> {
        let SetBudget { budget, batch_tokens } = asked.request;
        let Some(model) = &self.model else {
            let reason = "no model is loaded: load one first".into();
            asked.reply.send(Err(LoadError::Model { reason }));
            return Ok((false, None));
        };
        let residency = PlanResidency { budget, batch_tokens, ..model.residency.clone() };
        let mut is_touched = false;
        let placing = place(&self.links, &residency, &progress, &mut is_touched);
        let (placed, stop) = match door.while_busy(placing).await {
            Ok(placed) => (placed, None),
            Err(stop) => (Err(LoadError::Cancelled), Some(stop)),
        };
        door.note(&placed);
        match unless_gone(placed)? {
            Ok((ResidencyPlanned { plan, was_reduced }, placed)) => {
                // What steps cost is another matter now.
                self.links.controller.tell(ControllerMail::Forget(ForgetCosts)).await?;
                if let Some(model) = &mut self.model {
                    model.streams = plan.stream.is_some();
                    model.batch_tokens = plan.request.batch_tokens;
                    model.residency = residency;
                }
                self.placed(placed.quarantined.as_ref());
                self.show_facts(&plan);
                let WeightsPlaced { peak_bytes: gpu_bytes, read_bytes, quarantined } = placed;
                let set = BudgetSet { plan, was_reduced, gpu_bytes, read_bytes, quarantined };
                asked.reply.send(Ok(set));
            }
            // The model runs on as it was.
            Err(error) if !is_touched => asked.reply.send(Err(error)),
            Err(error) => {
                asked.reply.send(Err(error));
                unless_gone(self.unload().await?)?.ok();
            }
        }
        Ok((self.model.is_some(), stop))
    }
}
