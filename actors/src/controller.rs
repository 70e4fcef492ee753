//! The controller actor: hears what windows cost, latches the plan of the next ones.

use fanlight_messages::protocol::Lane;
use fanlight_messages::protocol::controller::{ConfigurePlan, ForgetCosts, ObserveWindow, PlanChosen};
use fanlight_scheduler::Controller;

use crate::kit::{Latch, Mail, Mailbox};

/// What the controller hears.
pub enum ControllerMail {
    /// See [`ObserveWindow`].
    Observe(ObserveWindow),
    /// See [`ConfigurePlan`].
    Configure(ConfigurePlan),
    /// See [`ForgetCosts`].
    Forget(ForgetCosts),
}

impl Mail for ControllerMail {
    fn lane(&self) -> Lane {
        match self {
            Self::Observe(_) => Lane::Inbox,
            Self::Configure(_) | Self::Forget(_) => Lane::Control,
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
        }
    }
    Ok(())
}
