//! What the engine does while nobody asks for anything: it measures what the controller does not know yet.
//!
//! A measurement is a run like any other, behind what the cache holds, whose tokens nobody sees. Mail ends
//! it.

use std::collections::BTreeMap;

use futures::FutureExt;
use futures::future::{Either, select};
use futures::pin_mut;

use fanlight_messages::control::{TOKENS_PER_STEP_MAX, WINDOWS_IN_FLIGHT};
use fanlight_messages::device::RequestSetup;
use fanlight_messages::draft::WidthPolicy;
use fanlight_messages::error::GenerateError;
use fanlight_messages::limits::CALIBRATION_US_MAX;
use fanlight_messages::protocol::controller::{ChooseMeasurement, PlanChosen};
use fanlight_messages::protocol::engine::{Generate, Prompt};
use fanlight_messages::protocol::submitter::{MeasureChoice, RunEvent};
use fanlight_messages::sampling::ChoiceWork;

use super::prompt::PreparedReply;
use super::shell::{Engine, EngineMail};
use crate::kit::{Gone, Mailbox};

/// Windows of a measurement: the first may find a device that had gone to sleep, and of the next two the
/// quicker one counts.
const MEASURED_WINDOWS: u32 = 3;

/// Whether measuring is wanted, and what it has cost.
#[derive(Debug, Default)]
pub(super) struct Calibration {
    /// A reply has let the controller choose, and not everything is known.
    pub is_wanted: bool,
    /// Microseconds spent on the loaded model.
    pub spent_us: u64,
    /// How the last reply chose its tokens, when nobody knows yet what that takes.
    choice_wanted: Option<ChoiceWork>,
    /// Nanoseconds of a choice.
    choices: BTreeMap<ChoiceWork, u64>,
}

impl Engine {
    /// A reply is over: plans what to measure, and gives the nanoseconds of a choice such as its own when
    /// they are known.
    pub(super) fn plan_measurements(&mut self, request: &Generate) -> Option<u64> {
        let model = self.model.as_ref().filter(|_| !self.is_lost)?;
        // On a processor one pipeline takes as long as many replies.
        self.calibration.is_wanted = matches!(request.width, WidthPolicy::Auto { .. })
            && !model.adapter.is_software()
            && !model.streams;
        let work = request.sampling.work(model.vocabulary_len);
        let known = self.calibration.choices.get(&work).copied();
        self.calibration.choice_wanted = known.is_none().then_some(work);
        known
    }

    /// The next mail. While there is none, what the controller does not know yet is measured.
    ///
    /// # Errors
    /// When an actor is gone.
    pub(super) async fn idle(
        &mut self,
        mailbox: &mut Mailbox<EngineMail>,
    ) -> Result<Option<EngineMail>, GenerateError> {
        if self.calibration.choice_wanted.is_some() {
            if let Some(mail) = mailbox.next().now_or_never() {
                return Ok(mail);
            }
            self.measure_choice().await?;
        }
        while self.calibration.is_wanted && self.calibration.spent_us < CALIBRATION_US_MAX {
            if let Some(mail) = mailbox.next().now_or_never() {
                return Ok(mail);
            }
            let gone = |_: Gone| GenerateError::EngineGone { actor: "controller" };
            let wanted = self.links.controller.ask(ChooseMeasurement).await.map_err(gone)?;
            let Some((plan, run)) = wanted.and_then(|plan| Some((plan, self.measurement(plan)?))) else {
                self.calibration.is_wanted = false;
                break;
            };
            let started_us = self.links.clock.now_us();
            let mail = self.measure(plan, run, mailbox).await?;
            self.calibration.spent_us += self.links.clock.now_us().saturating_sub(started_us);
            if let Some(mail) = mail {
                return Ok(mail);
            }
        }
        Ok(mailbox.next().await)
    }

    /// Measures what choosing a token takes in the way of the last reply: a few milliseconds, seldom.
    async fn measure_choice(&mut self) -> Result<(), GenerateError> {
        let Some(work) = self.calibration.choice_wanted.take() else { return Ok(()) };
        let gone = |_: Gone| GenerateError::EngineGone { actor: "submitter" };
        match self.links.submitter.ask(MeasureChoice).await.map_err(gone)? {
            Ok(ns) => {
                self.calibration.choices.insert(work, ns);
            }
            Err(_) => self.lose(),
        }
        Ok(())
    }

    /// A run that continues what the cache holds; `None` where there is nothing, or no room behind it.
    fn measurement(&self, plan: PlanChosen) -> Option<PreparedReply> {
        let model = self.model.as_ref().filter(|_| !self.is_lost)?;
        let base = self.journal.len().checked_sub(1)?;
        // Its first token, and as many as its windows and those in flight behind them can emit.
        let windows = MEASURED_WINDOWS + WINDOWS_IN_FLIGHT;
        let token_limit = 1 + windows * plan.steps * TOKENS_PER_STEP_MAX;
        let context_len = model.context_len;
        (self.journal.len() as u64 + u64::from(token_limit) <= u64::from(context_len)).then(|| {
            PreparedReply {
                tokenizer: model.tokenizer.clone(),
                prompt: self.journal.ids().into(),
                base,
                setup: RequestSetup { context_len, token_limit, ..RequestSetup::default() },
                chunk_tokens: model.quarantine.chunk_tokens(model.batch_tokens),
                memory_key: model.memory_key(),
            }
        })
    }

    /// Runs windows of a plan; the controller hears of them as of any others. Returns the mail that came
    /// meanwhile, if any did.
    async fn measure(
        &mut self,
        plan: PlanChosen,
        run: PreparedReply,
        mailbox: &mut Mailbox<EngineMail>,
    ) -> Result<Option<Option<EngineMail>>, GenerateError> {
        let request = Generate {
            window_steps: Some(plan.steps),
            width: WidthPolicy::Fixed(plan.width),
            ..Generate::new(Prompt::Ids(run.prompt.clone()), run.setup.token_limit)
        };
        let (mut events, answer) = self.begin(&run, &request, None).await?;
        // The last token is evaluated again, at its own position and to the same bits.
        self.journal.commit(&run.prompt[run.base..]);
        let (mut heard, mut windows) = (None, 0);
        loop {
            let event = match &heard {
                Some(_) => events.next().await,
                None => {
                    let (mail, event) = (mailbox.next(), events.next());
                    pin_mut!(mail, event);
                    match select(mail, event).await {
                        Either::Left((mail, _)) => {
                            heard = Some(mail);
                            self.end_run().await?;
                            continue;
                        }
                        Either::Right((event, _)) => event,
                    }
                }
            };
            match event {
                None => break,
                Some(RunEvent::WindowCompleted { .. }) => {
                    windows += 1;
                    if windows == MEASURED_WINDOWS && heard.is_none() {
                        self.end_run().await?;
                    }
                }
                Some(_) => {}
            }
        }
        match answer.wait().await? {
            Ok(over) => self.quarantine(&over.quarantined),
            Err(_) => self.lose(),
        }
        Ok(heard)
    }

    /// The submitter has dropped what was on the device; the next request brings it back, or says why not.
    fn lose(&mut self) {
        self.is_lost = true;
        self.journal.clear();
    }
}
