//! The engine: starts the actors, hands out their addresses, and is the only door for hosts.
//!
//! ```text
//! host ── EngineHandle ──> engine ──> pager ──> submitter ──> device
//!                            │ ├──> memory ──> the host's store
//!                            │ └──> controller <┄ (samples) ┄┘ │
//!                            └──────> telemetry <┄ (samples) ┄┄┘
//! ```
//!
//! Questions go along the solid arrows only; what goes upwards is a stream with reserved places, a latched
//! state or a sample that may be dropped. So nothing waits in a circle.

mod budget;
mod calibrate;
mod generate;
mod handle;
mod journal;
mod load;
mod prompt;
mod quarantine;
mod remember;
mod reply;
mod run;
mod shell;
mod telling;
mod timing;

use std::rc::Rc;

use fanlight_messages::backend::Backend;
use fanlight_messages::limits::{
    ENGINE_CONTROL, ENGINE_INBOX, MEMORY_INBOX, PAGER_INBOX, SAMPLES, SAMPLES_CONTROL, SUBMITTER_CONTROL,
    SUBMITTER_INBOX,
};
use fanlight_messages::protocol::controller::PlanChosen;

use crate::controller::controller;
use crate::kit::{Capacities, Clock, Latch, World};
use crate::memory::{MemoryStorage, NoStorage, memory};
use crate::pager::{PagerLinks, pager};
use crate::submitter::{Gaps, SubmitterLinks, submitter};
use crate::telemetry::TelemetryLink;

pub(crate) use load::context_len;

pub use handle::{EngineHandle, Generation};
pub use journal::Journal;
pub use shell::{EngineLinks, EngineMail, engine};

/// Starts an engine on this thread. It ends when every clone of its handle is dropped.
pub fn start_engine<B: Backend>(world: &World, backend: B, clock: Clock) -> EngineHandle {
    start_engine_with(world, backend, clock, NoStorage)
}

/// The same with a store for the session memory.
pub fn start_engine_with<B: Backend>(
    world: &World,
    backend: B,
    clock: Clock,
    storage: impl MemoryStorage,
) -> EngineHandle {
    let plan = Latch::new(PlanChosen::default());
    let telemetry = TelemetryLink::start(world, clock.clone());

    let capacities = Capacities { control: SAMPLES_CONTROL, inbox: SAMPLES };
    let controller = world.spawn("controller", capacities, |mailbox| controller(mailbox, plan.clone()));

    let links = SubmitterLinks {
        controller: controller.clone(),
        telemetry: telemetry.clone(),
        plan,
        gaps: Gaps::new(clock.clone()),
        clock: clock.clone(),
    };
    let capacities = Capacities { control: SUBMITTER_CONTROL, inbox: SUBMITTER_INBOX };
    let submitter =
        world.spawn("submitter", capacities, |mailbox| submitter(mailbox, Rc::new(backend), links));

    let links =
        PagerLinks { submitter: submitter.clone(), telemetry: telemetry.clone(), clock: clock.clone() };
    let capacities = Capacities { control: 1, inbox: PAGER_INBOX };
    let pager = world.spawn("pager", capacities, |mailbox| pager(mailbox, links));

    let capacities = Capacities { control: 1, inbox: MEMORY_INBOX };
    let memory = world.spawn("memory", capacities, |mailbox| memory(mailbox, storage));

    let gauges =
        [pager.gauge(), submitter.gauge(), controller.gauge(), memory.gauge(), telemetry.addr().gauge()];
    let links = EngineLinks {
        pager,
        submitter,
        controller: controller.clone(),
        memory,
        telemetry: telemetry.clone(),
        clock,
    };
    let capacities = Capacities { control: ENGINE_CONTROL, inbox: ENGINE_INBOX };
    let engine = world.spawn("engine", capacities, |mailbox| engine(mailbox, links));
    let gauges = [engine.gauge()].into_iter().chain(gauges).collect();
    EngineHandle::new(engine, controller, telemetry, gauges)
}
