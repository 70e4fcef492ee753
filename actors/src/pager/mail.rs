//! What the pager is asked, and whom it asks and tells.

use std::rc::Rc;

use fanlight_messages::protocol::engine::LoadProgress;
use fanlight_messages::protocol::pager::*;
use fanlight_messages::protocol::submitter::RunEvent;
use fanlight_models::gguf::ModelFile;

use crate::kit::{Addr, Clock, Latch, StreamSender, mail};
use crate::source::NamedSource;
use crate::submitter::SubmitterMail;
use crate::telemetry::TelemetryLink;

mail! {
    /// What the pager is asked.
    pub enum PagerMail {
        asked {
            /// See [`PlanResidency`].
            Plan(PlanResidency),
            /// See [`RestoreModel`].
            Restore(RestoreModel),
            /// See [`CloseModel`].
            Close(CloseModel),
        }
        asked_with {
            /// See [`OpenModel`]; beside it the files, and where the opened file goes for the engine to read
            /// its text from.
            Open(OpenModel, Vec<NamedSource>, StreamSender<Rc<ModelFile>>),
            /// See [`PlaceWeights`]; beside it, where progress is latched.
            Place(PlaceWeights, Latch<LoadProgress>),
            /// See [`StreamDecode`]; beside it, where the run's events go.
            Decode(StreamDecode, StreamSender<RunEvent>),
        }
    }
}

/// Whom the pager asks and tells.
#[derive(Clone)]
pub struct PagerLinks {
    /// The device.
    pub submitter: Addr<SubmitterMail>,
    /// Samples; droppable.
    pub telemetry: TelemetryLink,
    /// Time.
    pub clock: Clock,
}
