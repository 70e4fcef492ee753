//! The controller actor: hears what windows cost, latches the plan of the next ones.

use fanlight_messages::protocol::Lane;
use fanlight_messages::protocol::controller::*;
use fanlight_scheduler::Controller;

use crate::kit::{Asked, Latch, Mail, Mailbox};

/// What the controller hears.
pub enum ControllerMail {
    /// See [`ObserveWindow`].
    Observe(ObserveWindow),
    /// See [`ConfigurePlan`].
    Configure(ConfigurePlan),
    /// See [`ForgetCosts`].
    Forget(ForgetCosts),
    /// See [`ChooseMeasurement`].
    Measure(Asked<ChooseMeasurement>),
    /// See [`TakeCosts`].
    Take(Asked<TakeCosts>),
    /// See [`RecallCosts`].
    Recall(Asked<RecallCosts>),
    /// See [`TakeControllerSnapshot`].
    Snapshot(Asked<TakeControllerSnapshot>),
}

macro_rules! from_asked {
    ($($variant:ident($request:ty)),*) => {$(
        impl From<Asked<$request>> for ControllerMail {
            fn from(asked: Asked<$request>) -> Self {
                Self::$variant(asked)
            }
        }
    )*};
}
from_asked!(
    Measure(ChooseMeasurement),
    Take(TakeCosts),
    Recall(RecallCosts),
    Snapshot(TakeControllerSnapshot)
);

impl Mail for ControllerMail {
    fn lane(&self) -> Lane {
        match self {
            Self::Observe(_) => Lane::Inbox,
            _ => Lane::Control,
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
