//! Runs as the engine begins and ends them: at the submitter, or through the pager where weights stream.

use fanlight_messages::device::Quarantined;
use fanlight_messages::error::{DeviceError, GenerateError};
use fanlight_messages::limits::RUN_EVENTS;
use fanlight_messages::protocol::controller::ConfigurePlan;
use fanlight_messages::protocol::engine::Generate;
use fanlight_messages::protocol::pager::StreamDecode;
use fanlight_messages::protocol::submitter::{BeginDecode, EndDecode, PauseDecode, RunEvent, RunId, RunOver};

use super::prompt::PreparedReply;
use super::shell::Engine;
use crate::controller::ControllerMail;
use crate::kit::{Answer, Gone, StreamReceiver, stream};
use crate::pager::PagerMail;
use crate::submitter::SubmitterMail;

impl Engine {
    /// Starts a run that was asked for at `asked_us`, or that measures: its events, and the answer when it is
    /// over. `Err` only when an actor is gone.
    pub(super) async fn begin(
        &mut self,
        run: &PreparedReply,
        request: &Generate,
        asked_us: Option<u64>,
    ) -> Result<(StreamReceiver<RunEvent>, RunAnswer), GenerateError> {
        self.last_run = RunId(self.last_run.0 + 1);
        self.journal.truncate(run.base);
        let gone = |actor| move |_: Gone| GenerateError::EngineGone { actor };
        let frame_budget_us = request.frame_budget_ms.map(|ms| u64::from(ms) * 1000);
        let window_steps = request.window_steps;
        let streams = self.model.as_ref().is_some_and(|model| model.streams);
        let asked = request.width;
        let width = self.model.as_ref().map_or(asked, |model| model.quarantine.width(asked));
        let configure = ConfigurePlan { window_steps, width, frame_budget_us, streams };
        let told = self.links.controller.tell(ControllerMail::Configure(configure)).await;
        told.map_err(gone("controller"))?;
        let (place, events) = stream(RUN_EVENTS);
        let begin = BeginDecode {
            asked_us,
            run: self.last_run,
            setup: run.setup.clone(),
            base: run.base as u32,
            tokens: run.prompt[run.base..].into(),
            chunk_tokens: run.chunk_tokens,
            windows_in_flight: request.windows_in_flight,
            width,
        };
        let answer = if self.model.as_ref().is_some_and(|model| model.streams) {
            let decode = StreamDecode(begin);
            let answer = self.links.pager.start(decode, |asked| PagerMail::Decode(asked, place)).await;
            RunAnswer::Pager(answer.map_err(gone("pager"))?)
        } else {
            let begun = |asked| SubmitterMail::Begin(asked, place, None);
            RunAnswer::Submitter(self.links.submitter.start(begin, begun).await.map_err(gone("submitter"))?)
        };
        Ok((events, answer))
    }

    /// The model does without these from now on.
    pub(super) fn quarantine(&mut self, found: &[Quarantined]) {
        if let Some(model) = &mut self.model {
            found.iter().for_each(|found| model.quarantine.add(found));
            self.links.telemetry.change_facts(|facts| facts.quarantine(found));
        }
    }

    /// Tokens per prompt batch, where so many were asked for.
    pub(super) fn chunk_tokens(&self, wanted: u32) -> u32 {
        self.model.as_ref().map_or(wanted, |model| model.quarantine.chunk_tokens(wanted))
    }

    /// Asks the submitter to begin nothing more for the run.
    pub(super) async fn pause_run(&mut self) -> Result<(), GenerateError> {
        let pause = PauseDecode { run: self.last_run };
        let told = self.links.submitter.start(pause, Into::into).await;
        told.map(|_| ()).map_err(|_| GenerateError::EngineGone { actor: "submitter" })
    }

    /// Asks the submitter to submit nothing more for the run.
    pub(super) async fn end_run(&mut self) -> Result<(), GenerateError> {
        let end = EndDecode { run: self.last_run };
        let told = self.links.submitter.start(end, Into::into).await;
        told.map(|_| ()).map_err(|_| GenerateError::EngineGone { actor: "submitter" })
    }
}

/// The answer when a run is over, by whom was asked for it.
pub(super) enum RunAnswer {
    /// All weights are on the device.
    Submitter(Answer<Result<RunOver, DeviceError>>),
    /// Weights stream.
    Pager(Answer<Result<RunOver, GenerateError>>),
}

impl RunAnswer {
    /// Waits for it. The outer `Err` only when an actor is gone.
    pub(super) async fn wait(self) -> Result<Result<RunOver, GenerateError>, GenerateError> {
        let gone = |actor| move |_: Gone| GenerateError::EngineGone { actor };
        match self {
            Self::Submitter(answer) => {
                let result = answer.wait().await.map_err(gone("submitter"))?;
                Ok(result.map_err(Into::into))
            }
            Self::Pager(answer) => match answer.wait().await.map_err(gone("pager"))? {
                Err(error @ GenerateError::EngineGone { .. }) => Err(error),
                result => Ok(result),
            },
        }
    }
}
