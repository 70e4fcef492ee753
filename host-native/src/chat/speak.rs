//! The model's side of a chat: a reply that is printed as it comes, and can be stopped.

use std::rc::Rc;

use anyhow::{Context, Result};
use futures::future::{Either, select};
use futures::pin_mut;

use fanlight_actors::engine::EngineHandle;
use fanlight_messages::draft::WidthPolicy;
use fanlight_messages::limits::REPLY_TOKENS_MAX;
use fanlight_messages::protocol::engine::*;
use fanlight_messages::reply::{ReplyPart, Think};
use fanlight_messages::sampling::Sampling;

use crate::report::{self, print_text};
use crate::run::utc_now;
use crate::stop::Interrupts;
use crate::terminal;

/// What answers.
pub struct Speaker {
    pub handle: EngineHandle,
    pub loaded: ModelLoaded,
    pub interrupts: Interrupts,
    pub sampling: Rc<Sampling>,
    pub think: Think,
    /// Most tokens of a reply.
    pub limit: Option<u32>,
    /// What the last reply took.
    pub last: Option<String>,
}

impl Speaker {
    /// Prints a reply to these turns and returns it; Ctrl-C ends it early.
    pub async fn reply(&mut self, turns: Vec<ChatTurn>) -> Result<ChatTurn> {
        let (tools, think) = (ChatTools::default(), self.think);
        let prompt = Prompt::Chat { turns, tools, think, now: utc_now() };
        let request = Generate {
            sampling: self.sampling.clone(),
            width: WidthPolicy::for_adapter(self.loaded.adapter.kind),
            ..Generate::new(prompt, self.limit.unwrap_or(REPLY_TOKENS_MAX))
        };
        self.interrupts.forget();
        let mut generation = self.handle.generate(request).await?;
        let mut parts = Vec::new();
        loop {
            let event = generation.events.next();
            let interrupted = self.interrupts.next();
            pin_mut!(event, interrupted);
            let event = match select(event, interrupted).await {
                Either::Left((event, _)) => event.context("the engine ended in the middle of the reply")?,
                Either::Right(_) => {
                    self.handle.cancel().await?;
                    continue;
                }
            };
            match event {
                GenerationEvent::Tokens { parts: more, .. } => print(more, &mut parts),
                GenerationEvent::Finished(finished) => {
                    print(finished.parts.clone(), &mut parts);
                    print_text("\n");
                    let line = report::speed_line(&finished, generation.started.reused_tokens, &self.loaded);
                    self.last = Some(line);
                    return Ok(said(&parts));
                }
                GenerationEvent::Failed(error) => return Err(error.into()),
                _ => {}
            }
        }
    }
}

/// Prints what is new, and keeps it.
fn print(more: Vec<ReplyPart>, parts: &mut Vec<ReplyPart>) {
    for part in more {
        match &part {
            ReplyPart::Reasoning(text) => eprint!("{}", terminal::faint(text)),
            ReplyPart::Content(text) => {
                if matches!(parts[..], [ReplyPart::Reasoning(_)]) {
                    eprintln!("\n");
                }
                let shown = if terminal::shows_answer() { terminal::plain(text) } else { text.into() };
                print_text(&shown);
            }
            // A chat offers no functions.
            ReplyPart::Call(_) => {}
        }
        ReplyPart::append(parts, part);
    }
}

fn said(parts: &[ReplyPart]) -> ChatTurn {
    let reasoning = Some(ReplyPart::reasoning_of(parts)).filter(|text| !text.is_empty());
    ChatTurn { reasoning, ..ChatTurn::new(ChatRole::Assistant, ReplyPart::content_of(parts)) }
}
