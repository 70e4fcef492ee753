//! Another budget for the model that is loaded.

use std::rc::Rc;

use fanlight_messages::error::{GenerateError, LoadError};
use fanlight_messages::protocol::controller::ForgetCosts;
use fanlight_messages::protocol::engine::{BudgetSet, LoadProgress, SetBudget};
use fanlight_messages::protocol::pager::{PlanResidency, ResidencyPlanned, WeightsPlaced};

use super::load::place;
use super::quarantine::Quarantine;
use super::reply::ReplyCore;
use super::shell::{Engine, EngineMail, Interrupt, while_busy};
use super::telling::Telling;
use crate::controller::ControllerMail;
use crate::kit::{Asked, Latch, Mailbox};

fn gone(error: LoadError) -> GenerateError {
    match error {
        LoadError::EngineGone { actor } => GenerateError::EngineGone { actor },
        _ => GenerateError::EngineGone { actor: "pager" },
    }
}

impl Engine {
    /// The budget that was asked for while a reply was generated takes effect between two of its runs.
    /// What is returned ends the reply: there is no model any more. `Err` only when an actor is gone.
    pub(super) async fn change_budget(
        &mut self,
        reply: &mut ReplyCore,
        telling: &mut Telling,
        mailbox: &mut Mailbox<EngineMail>,
    ) -> Result<Option<Result<(), GenerateError>>, GenerateError> {
        let Some((asked, progress)) = telling.budget.take() else { return Ok(None) };
        telling.interrupt = self.set_budget(asked, progress, mailbox).await.map_err(gone)?;
        if telling.interrupt.is_some() {
            reply.cancel();
            return Ok(Some(Ok(())));
        }
        // Why it is gone is what the asker of the budget hears.
        Ok(self.model.is_none().then_some(Err(GenerateError::NoModel)))
    }

    /// The budget that was asked for when the reply had just ended, unless something ended it early.
    pub(super) async fn late_budget(
        &mut self,
        telling: Telling,
        mailbox: &mut Mailbox<EngineMail>,
    ) -> Result<Option<Interrupt>, GenerateError> {
        match (telling.budget, telling.interrupt) {
            (Some((asked, progress)), None) => self.set_budget(asked, progress, mailbox).await.map_err(gone),
            (Some((asked, _)), interrupt) => {
                asked.reply.send(Err(LoadError::Busy));
                Ok(interrupt)
            }
            (None, interrupt) => Ok(interrupt),
        }
    }

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
                    self.links.telemetry.change_facts(|facts| {
                        facts.model = Some(Rc::new(model.facts(&plan)));
                        facts.quarantined = placed.quarantined.iter().cloned().collect();
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
