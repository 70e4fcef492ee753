//! Another budget for the model that is loaded.

use std::rc::Rc;

use fanlight_messages::error::LoadError;
use fanlight_messages::protocol::controller::ForgetCosts;
use fanlight_messages::protocol::engine::{BudgetSet, LoadProgress, SetBudget};
use fanlight_messages::protocol::pager::{PlanResidency, ResidencyPlanned, WeightsPlaced};
use fanlight_messages::protocol::telemetry::Facts;

use super::load::place;
use super::quarantine::Quarantine;
use super::shell::{Engine, EngineMail, Interrupt, while_busy};
use crate::controller::ControllerMail;
use crate::kit::{Asked, Latch, Mailbox};

impl Engine {
    /// Plans and places the model anew. `Err` only when an actor is gone.
    pub(super) async fn set_budget(
        &mut self,
        asked: Asked<SetBudget>,
        progress: Latch<LoadProgress>,
        mailbox: &mut Mailbox<EngineMail>,
    ) -> Result<Option<Interrupt>, LoadError> {
        let SetBudget { budget, batch_tokens } = asked.request;
        let Some(model) = &self.model else {
            let reason = "no model is loaded: load one first".into();
            asked.reply.send(Err(LoadError::Model { reason }));
            return Ok(None);
        };
        let residency = PlanResidency { budget, batch_tokens, ..model.residency.clone() };
        let placing = place(&self.links, &residency, &progress);
        let (placed, interrupt) = match while_busy(mailbox, placing).await {
            Ok(placed) => (placed, None),
            Err(interrupt) => (Err(LoadError::Cancelled), Some(interrupt)),
        };
        mailbox.note(&placed);
        match placed {
            Ok((ResidencyPlanned { plan, was_reduced }, placed)) => {
                // What steps cost is another matter now, and the cache is empty.
                let told = self.links.controller.tell(ControllerMail::Forget(ForgetCosts)).await;
                told.map_err(|_| LoadError::EngineGone { actor: "controller" })?;
                self.journal.clear();
                if let Some(model) = &mut self.model {
                    model.streams = plan.stream.is_some();
                    model.batch_tokens = plan.request.batch_tokens;
                    model.residency = residency;
                    model.quarantine = Quarantine::new(placed.quarantined.as_ref());
                    let facts = self.links.telemetry.facts();
                    facts.set(Facts {
                        model: Some(Rc::new(model.facts(&plan))),
                        quarantined: placed.quarantined.iter().cloned().collect(),
                        ..facts.get()
                    });
                }
                let WeightsPlaced { peak_bytes: gpu_bytes, read_bytes, quarantined } = placed;
                let set = BudgetSet { plan, was_reduced, gpu_bytes, read_bytes, quarantined };
                asked.reply.send(Ok(set));
            }
            // Nothing was touched: the model runs on as it was.
            Err(error @ (LoadError::OverBudget { .. } | LoadError::Plan { .. })) => {
                asked.reply.send(Err(error));
            }
            Err(error) => self.refuse_model(error, asked.reply).await?,
        }
        Ok(interrupt)
    }
}
