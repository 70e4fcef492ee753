//! A reply as it is printed: the answer on the standard output, all else on the standard error output.

use std::process::ExitCode;

use anyhow::{Context, Result};
use futures::future::{Either, select};
use futures::pin_mut;
use serde_json::json;

use fanlight_actors::engine::{EngineHandle, Generation};
use fanlight_messages::protocol::engine::*;
use fanlight_messages::reply::ReplyPart;

use crate::load::PassBar;
use crate::observe::Observer;
use crate::report;
use crate::stop::{INTERRUPTED, Interrupts};
use crate::terminal;

/// How a reply is printed.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// As JSON lines.
    pub is_json: bool,
    /// Whether thoughts are shown too.
    pub shows_thinking: bool,
    /// With which another run would draw the same tokens.
    pub seed: Option<u64>,
}

/// Prints a reply and remembers it for the line that sums up.
pub struct Printer<'a> {
    look: Look,
    loaded: &'a ModelLoaded,
    is_terminal: bool,
    pass: PassBar,
    ids: Vec<u32>,
    parts: Vec<ReplyPart>,
}

impl<'a> Printer<'a> {
    /// For the reply of a loaded model.
    pub fn new(look: Look, loaded: &'a ModelLoaded) -> Self {
        let is_terminal = terminal::shows_answer();
        Self { look, loaded, is_terminal, pass: PassBar::default(), ids: Vec::new(), parts: Vec::new() }
    }

    /// Prints an event that is not the last; false when nobody reads any more.
    fn show(&mut self, event: GenerationEvent) -> bool {
        let is_json = self.look.is_json;
        match event {
            GenerationEvent::Prefilled { done, total } if is_json => {
                report::print_json(&json!({ "prefilled": done, "of": total }))
            }
            GenerationEvent::Advanced { done, total } if is_json => {
                report::print_json(&json!({ "pass": done, "of": total }))
            }
            GenerationEvent::Advanced { done, total } => {
                self.pass.show(done, total);
                true
            }
            GenerationEvent::Tokens { ids, parts } => {
                self.pass.clear();
                self.ids.extend(&ids);
                if is_json {
                    let (text, reasoning) = (ReplyPart::content_of(&parts), ReplyPart::reasoning_of(&parts));
                    let mut line = json!({ "text": text, "ids": ids });
                    if !reasoning.is_empty() {
                        line["reasoning"] = reasoning.into();
                    }
                    self.keep(parts);
                    return report::print_json(&line);
                }
                self.print_parts(parts)
            }
            GenerationEvent::Resumed { same_adapter, adapter } => {
                let note = if same_adapter { "" } else { "; on another adapter the text may differ" };
                eprintln!("fanlight: the gpu was lost and is back: {}{note}", report::adapter_text(&adapter));
                true
            }
            _ => true,
        }
    }

    /// Prints the answer, and thoughts where they are wanted; false when nobody reads any more.
    fn print_parts(&mut self, parts: Vec<ReplyPart>) -> bool {
        let mut is_read = true;
        for part in parts {
            is_read = self.print_part(&part) && is_read;
            ReplyPart::append(&mut self.parts, part);
        }
        is_read
    }

    fn print_part(&self, part: &ReplyPart) -> bool {
        let shows_thinking = self.look.shows_thinking;
        match part {
            ReplyPart::Reasoning(text) if shows_thinking => eprint!("{}", terminal::faint(text)),
            // The command line offers no functions.
            ReplyPart::Reasoning(_) | ReplyPart::Call(_) => {}
            ReplyPart::Content(text) => {
                if shows_thinking && matches!(self.parts[..], [ReplyPart::Reasoning(_)]) {
                    eprintln!("\n");
                }
                let shown = if self.is_terminal { terminal::plain(text) } else { text.into() };
                return report::print_text(&shown);
            }
        }
        true
    }

    fn keep(&mut self, parts: Vec<ReplyPart>) {
        parts.into_iter().for_each(|part| ReplyPart::append(&mut self.parts, part));
    }

    /// Prints the end of a reply.
    fn end(mut self, started: &GenerationStarted, finished: ReplyFinished) {
        self.pass.clear();
        report::memory_fault(&finished.memory_fault);
        report::quarantined(&finished.quarantined);
        if self.look.is_json {
            self.keep(finished.parts.clone());
            let mut line =
                report::finished_line(&started.prompt_ids, &self.ids, &self.parts, &finished, self.loaded);
            line["seed"] = self.look.seed.into();
            line["memory_tokens"] = started.memory_tokens.into();
            report::print_json(&line);
            return;
        }
        self.print_parts(finished.parts.clone());
        report::print_text("\n");
        let seed = self.look.seed.map_or(String::new(), |seed| format!(", seed {seed}"));
        eprintln!("{}{seed}", report::speed_line(&finished, started.reused_tokens, self.loaded));
    }
}

/// Prints a reply as it comes.
pub async fn stream_reply(
    mut generation: Generation,
    handle: &EngineHandle,
    mut printer: Printer<'_>,
    interrupts: &mut Interrupts,
    observer: &mut Observer,
) -> Result<ExitCode> {
    let mut was_interrupted = false;
    loop {
        let event = generation.events.next();
        let interrupted = interrupts.next();
        pin_mut!(event, interrupted);
        let event = match select(event, interrupted).await {
            Either::Left((event, _)) => event.context("the engine ended in the middle of the reply")?,
            Either::Right(_) => {
                was_interrupted = true;
                handle.cancel().await?;
                continue;
            }
        };
        observer.look(handle, false).await?;
        match event {
            GenerationEvent::Finished(finished) => {
                printer.end(&generation.started, finished);
                return Ok(if was_interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS });
            }
            GenerationEvent::Failed(error) => return Err(error.into()),
            event => {
                if !printer.show(event) {
                    // The reader of the pipe has left: so does the reply.
                    handle.cancel().await?;
                }
            }
        }
    }
}
