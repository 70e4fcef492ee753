//! The engine's side of the server: counts prompts, keeps the line, and runs one reply at a time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use futures::future::{Either, select};
use futures::pin_mut;
use tokio::sync::{Notify, mpsc};

use fanlight_actors::engine::EngineHandle;
use fanlight_dialects::{ApiError, Choice, Format, NormalRequest, PromptForm, ReplyEvent, Usage};
use fanlight_messages::draft::WidthPolicy;
use fanlight_messages::error::GenerateError;
use fanlight_messages::protocol::engine::*;
use fanlight_messages::reply::Think;

use super::job::{Errand, Job};
use super::line::{Line, WAITING_MAX};
use super::reply::{Cut, Run};
use crate::run::utc_now;

/// Seconds after which another try is suggested, at least and at most.
const RETRY_S: (u64, u64) = (1, 60);

/// Keeps the line.
pub struct Desk {
    pub(super) handle: EngineHandle,
    pub(super) context_len: u32,
    pub(super) width: WidthPolicy,
    line: RefCell<Line<Waiting>>,
    came: Notify,
    /// Tokens that the cache holds, as far as this desk knows.
    pub(super) held: RefCell<Vec<u32>>,
    /// Seconds that the last replies took, one with another.
    typical_s: Cell<f64>,
}

/// One that waits, and what is known of it.
pub(super) struct Waiting {
    pub request: NormalRequest,
    pub events: mpsc::Sender<ReplyEvent>,
    pub prompts: Vec<Counted>,
    pub came: Instant,
}

/// A prompt as the engine takes it, and its ids.
pub(super) struct Counted {
    pub prompt: Prompt,
    pub ids: Rc<[u32]>,
}

impl Desk {
    /// A desk of a loaded model.
    pub fn new(handle: EngineHandle, loaded: &ModelLoaded) -> Self {
        Self {
            handle,
            context_len: loaded.context_len,
            width: WidthPolicy::for_adapter(loaded.adapter.kind),
            line: RefCell::default(),
            came: Notify::new(),
            held: RefCell::default(),
            typical_s: Cell::new(0.0),
        }
    }

    /// Does errands until nobody can send one any more. Counting goes on while a reply runs.
    pub async fn errands(&self, mut errands: mpsc::Receiver<Errand>) {
        while let Some(errand) = errands.recv().await {
            match errand {
                Errand::Reply(job) => self.admit(*job).await,
                Errand::Count(request, answer) => {
                    let counted = self.count(&request).await;
                    // Whoever asked may have left.
                    let _ = answer.send(counted.map(|prompts| tokens_of(&prompts)));
                }
            }
        }
    }

    /// Runs those who wait, one after the other.
    pub async fn replies(&self) {
        loop {
            let next = self.line.borrow_mut().next(|waiting| self.held_of(waiting));
            match next {
                None => self.came.notified().await,
                Some(waiting) => self.reply(waiting).await,
            }
        }
    }

    async fn admit(&self, job: Job) {
        let Job { request, session, admitted, events } = job;
        let counted = match check_served(&request).and_then(|()| self.room(&session)) {
            Ok(()) => self.count(&request).await,
            Err(error) => Err(error),
        };
        // Others may have come while it was counted.
        let counted = counted.and_then(|prompts| {
            self.check_lengths(&prompts)?;
            self.room(&session).map(|()| prompts)
        });
        let answer = match counted {
            Ok(prompts) => {
                let prompt_tokens = tokens_of(&prompts);
                let waiting = Waiting { request, events, prompts, came: Instant::now() };
                self.line.borrow_mut().enter(session, waiting);
                Ok(prompt_tokens)
            }
            Err(error) => Err(error),
        };
        // Whoever has left is dropped from the line when its turn comes.
        let _ = admitted.send(answer);
        self.came.notify_one();
    }

    fn room(&self, session: &str) -> Result<(), ApiError> {
        let mut line = self.line.borrow_mut();
        line.keep(|waiting| !waiting.events.is_closed());
        if line.has_room(session) {
            return Ok(());
        }
        let (min, max) = RETRY_S;
        let retry_after_s = (self.typical_s.get().ceil() as u64).clamp(min, max) as u32;
        Err(ApiError::QueueFull { waiting: line.len().min(WAITING_MAX) as u32, retry_after_s })
    }

    /// The prompts of a request with their ids.
    async fn count(&self, request: &NormalRequest) -> Result<Vec<Counted>, ApiError> {
        let mut counted = Vec::new();
        for form in &request.prompts {
            let prompt = self.prompt(request, form).await?;
            let ids = self.handle.tokenize(TokenizeInput::Prompt(prompt.clone())).await?;
            counted.push(Counted { prompt, ids });
        }
        Ok(counted)
    }

    /// Refuses a prompt that is empty or longer than the context, before anybody waits for it.
    fn check_lengths(&self, prompts: &[Counted]) -> Result<(), ApiError> {
        for counted in prompts {
            let (tokens, context_len) = (counted.ids.len() as u64, self.context_len);
            if tokens > u64::from(context_len) {
                return Err(ApiError::PromptTooLong { tokens, context_len });
            }
            if tokens == 0 {
                return Err(GenerateError::EmptyPrompt.into());
            }
        }
        Ok(())
    }

    async fn prompt(&self, request: &NormalRequest, form: &PromptForm) -> Result<Prompt, ApiError> {
        Ok(match form {
            PromptForm::Chat { turns, tools } => {
                let functions = if request.offers_tools() { tools.clone() } else { Vec::new() };
                let tools = ChatTools { functions, one_call: !request.parallel };
                let think = match request.think {
                    Some(true) => Think::On,
                    Some(false) => Think::Off,
                    None => Think::Template,
                };
                Prompt::Chat { turns: turns.clone(), tools, think, now: utc_now() }
            }
            PromptForm::Ids(ids) => Prompt::Ids(ids.as_slice().into()),
            PromptForm::Raw { text, parse_special } => {
                let recognise_control = *parse_special;
                let input = TokenizeInput::Text { text: text.clone(), recognise_control, add_begin: true };
                Prompt::Ids(self.handle.tokenize(input).await?)
            }
        })
    }

    fn held_of(&self, waiting: &Waiting) -> usize {
        let Some(first) = waiting.prompts.first() else { return 0 };
        self.held.borrow().iter().zip(first.ids.iter()).take_while(|(held, wanted)| held == wanted).count()
    }

    /// Runs all replies of a request; whoever left meanwhile ends it.
    async fn reply(&self, waiting: Waiting) {
        let started = Instant::now();
        let mut run = Run::new(self, &waiting);
        let outcome = run.all().await;
        let usage = Usage { total_us: waiting.came.elapsed().as_micros() as u64, ..run.usage() };
        let last = match outcome {
            Ok(()) => ReplyEvent::Ended(usage),
            Err(Cut::Failed(error)) => ReplyEvent::Failed(error),
            Err(Cut::ReaderGone) => {
                // The engine is idle when this is answered: the next reply does not hear that it is busy.
                let _ = self.handle.cancel().await;
                return;
            }
        };
        let seconds = started.elapsed().as_secs_f64();
        let before = self.typical_s.get();
        self.typical_s.set(if before == 0.0 { seconds } else { 0.75 * before + 0.25 * seconds });
        let _ = waiting.events.send(last).await;
    }
}

/// Refuses what is read and cannot be honoured.
fn check_served(request: &NormalRequest) -> Result<(), ApiError> {
    let unsupported = |field: &str, hint: &str| {
        Err(ApiError::Unsupported { field: field.to_owned(), hint: hint.to_owned() })
    };
    if request.format != Format::Text {
        return unsupported("a format of the answer", "ask for JSON in the messages");
    }
    if matches!(request.choice, Choice::Required | Choice::Named(_)) {
        return unsupported(
            "tool_choice",
            "a call cannot be forced: leave it to the model, with auto or none",
        );
    }
    Ok(())
}

/// Tokens of all prompts of a request.
pub(super) fn tokens_of(prompts: &[Counted]) -> u32 {
    prompts.iter().map(|counted| counted.ids.len() as u32).sum()
}

/// What comes first: what was awaited, or that nobody receives events any more.
pub(super) async fn unless_gone<T>(
    events: &mpsc::Sender<ReplyEvent>,
    work: impl Future<Output = T>,
) -> Result<T, Cut> {
    let gone = events.closed();
    pin_mut!(gone, work);
    match select(gone, work).await {
        Either::Left(_) => Err(Cut::ReaderGone),
        Either::Right((done, _)) => Ok(done),
    }
}
