//! The controller actor: hears what windows cost, latches the plan of the next ones.

use fanlight_messages::protocol::Lane;
use fanlight_messages::protocol::controller::{ConfigurePlan, ObserveWindow, PlanChosen};
use fanlight_scheduler::WindowPlanner;

use crate::kit::{Latch, Mail, Mailbox};

/// What the controller hears.
pub enum ControllerMail {
    /// See [`ObserveWindow`].
    Observe(ObserveWindow),
    /// See [`ConfigurePlan`].
    Configure(ConfigurePlan),
}

impl Mail for ControllerMail {
    fn lane(&self) -> Lane {
        match self {
            Self::Observe(_) => Lane::Inbox,
            Self::Configure(_) => Lane::Control,
        }
    }
}

/// The controller's loop. It ends when every address is dropped.
pub async fn controller(
    mut mailbox: Mailbox<ControllerMail>,
    plan: Latch<PlanChosen>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut planner = WindowPlanner::new(plan.get().steps);
    while let Some(mail) = mailbox.next().await {
        match mail {
            ControllerMail::Observe(window) => planner.observe(window.steps, window.elapsed_us),
            ControllerMail::Configure(configure) => {
                planner.limit_steps(configure.steps_max);
                planner.set_width(configure.width);
            }
        }
        plan.set(planner.plan());
    }
    Ok(())
}
