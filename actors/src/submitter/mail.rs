//! What the submitter is asked, and whom it tells.

use fanlight_messages::protocol::controller::{ObserveWindow, PlanChosen};
use fanlight_messages::protocol::engine::LoadProgress;
use fanlight_messages::protocol::submitter::*;
use fanlight_messages::protocol::telemetry::RecordSample;

use super::gap::Gaps;
use crate::controller::ControllerMail;
use crate::kit::{Addr, Clock, Latch, StreamSender, mail};
use crate::telemetry::TelemetryLink;

mail! {
    /// What the submitter is asked.
    pub enum SubmitterMail {
        asked {
            /// See [`DescribeDevice`].
            Describe(DescribeDevice),
            /// See [`CreateModel`].
            Create(CreateModel),
            /// See [`UploadMatrix`].
            Matrix(UploadMatrix),
            /// See [`UploadVector`].
            Vector(UploadVector),
            /// See [`MeasureChoice`].
            Choice(MeasureChoice),
            /// See [`DropModel`].
            Drop(DropModel),
            /// See [`ReopenDevice`].
            Reopen(ReopenDevice),
            /// See [`StreamRows`].
            Stream(StreamRows),
            /// See [`GatherRows`].
            Gather(GatherRows),
            /// See [`PauseDecode`].
            Pause(PauseDecode),
            /// See [`EndDecode`].
            End(EndDecode),
        }
        asked_with {
            /// See [`CompilePipelines`]; beside it, where progress is latched.
            Compile(CompilePipelines, Latch<LoadProgress>),
            /// See [`BeginDecode`]; beside it, where its events go, and its demands when its weights stream.
            Begin(BeginDecode, StreamSender<RunEvent>, Option<StreamSender<Demand>>),
        }
    }
}

/// Whom the submitter tells.
#[derive(Clone)]
pub struct SubmitterLinks {
    /// What windows cost; droppable.
    pub controller: Addr<ControllerMail>,
    /// Samples; droppable.
    pub telemetry: TelemetryLink,
    /// The plan of windows to come.
    pub plan: Latch<PlanChosen>,
    /// Why nothing is in flight.
    pub gaps: Gaps,
    /// Time.
    pub clock: Clock,
}

impl SubmitterLinks {
    pub(super) fn observe(&self, window: ObserveWindow) {
        // A full queue means that the controller has enough to go by.
        self.controller.try_tell(ControllerMail::Observe(window));
    }

    pub(super) fn record(&self, sample: RecordSample) {
        self.telemetry.record(sample);
    }
}
