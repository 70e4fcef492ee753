//! Runs as the engine begins and ends them: at the submitter, or through the pager where weights stream.

use fanlight_messages::error::{DeviceError, GenerateError, Gone};
use fanlight_messages::limits::RUN_EVENTS;
use fanlight_messages::protocol::controller::ConfigurePlan;
use fanlight_messages::protocol::engine::Generate;
use fanlight_messages::protocol::pager::StreamDecode;
use fanlight_messages::protocol::submitter::{BeginDecode, EndDecode, PauseDecode, RunEvent, RunId, RunOver};

use super::session::NextRun;
use super::state::Engine;
use crate::controller::ControllerMail;
use crate::kit::{Answer, StreamReceiver, stream};
use crate::pager::PagerMail;
use crate::submitter::SubmitterMail;

/// A run that was begun.
pub(super) struct Run {
    pub events: StreamReceiver<RunEvent>,
    answer: RunAnswer,
}

/// The answer when a run is over, by whom was asked for it.
enum RunAnswer {
    /// All weights are on the device.
    Submitter(Answer<Result<RunOver, DeviceError>>),
    /// Weights stream.
    Pager(Answer<Result<RunOver, GenerateError>>),
}

impl Run {
    /// Waits for its end.
    pub(super) async fn over(self) -> Result<Result<RunOver, GenerateError>, Gone> {
        match self.answer {
            RunAnswer::Submitter(answer) => Ok(answer.wait().await?.map_err(Into::into)),
            RunAnswer::Pager(answer) => match answer.wait().await? {
                Err(GenerateError::EngineGone(gone)) => Err(gone),
                result => Ok(result),
            },
        }
    }
}

impl Engine {
    /// Starts a run that was asked for at `asked_us`, or that measures.
    pub(super) async fn begin(
        &mut self,
        run: &NextRun,
        request: &Generate,
        asked_us: Option<u64>,
    ) -> Result<Run, Gone> {
        self.last_run = RunId(self.last_run.0 + 1);
        self.journal.truncate(run.base);
        let frame_budget_us = request.frame_budget_ms.map(|ms| u64::from(ms) * 1000);
        let window_steps = request.window_steps;
        let streams = self.model.as_ref().is_some_and(|model| model.streams);
        let asked = request.width;
        let width = self.model.as_ref().map_or(asked, |model| model.quarantine.width(asked));
        let configure = ConfigurePlan { window_steps, width, frame_budget_us, streams };
        self.links.controller.tell(ControllerMail::Configure(configure)).await?;
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
        let answer = if streams {
            let decode = |asked| PagerMail::Decode(asked, place);
            RunAnswer::Pager(self.links.pager.start(StreamDecode(begin), decode).await?)
        } else {
            let begun = |asked| SubmitterMail::Begin(asked, place, None);
            RunAnswer::Submitter(self.links.submitter.start(begin, begun).await?)
        };
        Ok(Run { events, answer })
    }

    /// Asks the submitter to begin nothing more for the run.
    pub(super) async fn pause_run(&mut self) -> Result<(), Gone> {
        let pause = PauseDecode { run: self.last_run };
        self.links.submitter.start(pause, Into::into).await.map(|_| ())
    }

    /// Asks the submitter to submit nothing more for the run.
    pub(super) async fn end_run(&mut self) -> Result<(), Gone> {
        let end = EndDecode { run: self.last_run };
        self.links.submitter.start(end, Into::into).await.map(|_| ())
    }
}
