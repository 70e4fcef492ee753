//! The controller actor: hears what windows cost, latches the plan of the next ones.

use fanlight_messages::protocol::controller::*;
use fanlight_scheduler::Controller;

use crate::kit::{Latch, Mailbox, mail};

mail! {
    /// What the controller is asked and told.
    pub enum ControllerMail {
        asked {
            /// See [`ChooseMeasurement`].
            Measure(ChooseMeasurement),
            /// See [`TakeCosts`].
            Take(TakeCosts),
            /// See [`RecallCosts`].
            Recall(RecallCosts),
            /// See [`TakeControllerSnapshot`].
            Snapshot(TakeControllerSnapshot),
        }
        told {
            /// See [`ObserveWindow`].
            Observe(ObserveWindow) in Inbox,
            /// See [`ConfigurePlan`].
            Configure(ConfigurePlan) in Control,
            /// See [`ForgetCosts`].
            Forget(ForgetCosts) in Control,
        }
    }
}

/// The controller's loop. It ends when every address is dropped.
pub async fn controller(
    mut mailbox: Mailbox<ControllerMail>,
    plan: Latch<PlanChosen>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut controller = Controller::default();
    while let Some(mail) = mailbox.next().await {
        match mail {
            ControllerMail::Observe(window) => plan.set(controller.observe(&window)),
            ControllerMail::Configure(configure) => plan.set(controller.configure(&configure)),
            // The plan changes when the next request is configured.
            ControllerMail::Forget(ForgetCosts) => controller.forget(),
            ControllerMail::Measure(asked) => asked.reply.send(controller.measurement()),
            ControllerMail::Take(asked) => asked.reply.send(controller.record(&asked.request.key)),
            ControllerMail::Recall(asked) => {
                asked.reply.send(controller.recall(&asked.request.key, &asked.request.record));
            }
            ControllerMail::Snapshot(asked) => asked.reply.send(controller.snapshot()),
        }
    }
    Ok(())
}
