//! Splits a reply into what the model thought and what it answers.
//!
//! Where a reply begins is known from the prompt's tail, not from the template: a template may name the marks
//! and not use them this time. A mark inside an answer is text.

use fanlight_messages::reply::ReplyPart;
use std::ops::Range;

/// Pairs of marks in use, opening and closing.
const MARKS: [(&str, &str); 3] =
    [("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("<seed:think>", "</seed:think>")];

/// Whether a piece with this text is a mark. Some vocabularies type marks as control pieces, which have no
/// text otherwise.
pub(super) fn is_mark(piece: &[u8]) -> bool {
    MARKS.iter().any(|(open, close)| piece == open.as_bytes() || piece == close.as_bytes())
}

/// The closing mark that belongs to the opening mark a prompt ends with, if it ends with one of the
/// template's own: `is_supplied` says that a range of it is not.
pub(super) fn opened_by(prompt: &str, is_supplied: impl Fn(Range<usize>) -> bool) -> Option<&'static str> {
    let tail = prompt.trim_end();
    let (open, close) = MARKS.iter().find(|(open, _)| tail.ends_with(open))?;
    (!is_supplied(tail.len() - open.len()..tail.len())).then_some(close)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing but white space so far: an opening mark may come.
    Undecided,
    /// Inside reasoning, up to this mark.
    Reasoning(&'static str),
    /// Behind reasoning: line breaks before the answer belong to neither.
    BeforeContent,
    Content,
}

/// Splits a reply while it arrives. Text is held back only while it may be the beginning of a mark.
#[derive(Debug, Clone)]
pub struct ReasoningSplitter {
    state: State,
    held: String,
}

impl ReasoningSplitter {
    /// `open_reasoning` is the closing mark to wait for if the prompt ends inside reasoning, as
    /// [`super::template::RenderedPrompt::open_reasoning`] says.
    pub fn new(open_reasoning: Option<&'static str>) -> Self {
        let state = open_reasoning.map_or(State::Undecided, State::Reasoning);
        Self { state, held: String::new() }
    }

    /// Whether a mark that comes now may still begin or end reasoning.
    pub fn awaits_mark(&self) -> bool {
        matches!(self.state, State::Undecided | State::Reasoning(_))
    }

    /// The parts that this text decides, in order, none of them empty.
    pub fn push(&mut self, text: &str) -> Vec<ReplyPart> {
        self.held.push_str(text);
        let mut parts = Vec::new();
        while self.advance(&mut parts) {}
        parts
    }

    /// What was held back when the reply ended.
    pub fn finish(self) -> Option<ReplyPart> {
        match self.state {
            _ if self.held.is_empty() => None,
            State::Reasoning(_) => Some(ReplyPart::Reasoning(self.held)),
            _ => Some(ReplyPart::Content(self.held)),
        }
    }

    /// One step; says whether another may follow.
    fn advance(&mut self, parts: &mut Vec<ReplyPart>) -> bool {
        match self.state {
            State::Undecided => self.decide(),
            State::Reasoning(close) => self.reason(close, parts),
            State::BeforeContent => {
                let breaks = self.held.len() - self.held.trim_start_matches(['\r', '\n']).len();
                self.held.drain(..breaks);
                if !self.held.is_empty() {
                    self.state = State::Content;
                }
                !self.held.is_empty()
            }
            State::Content => {
                if !self.held.is_empty() {
                    parts.push(ReplyPart::Content(std::mem::take(&mut self.held)));
                }
                false
            }
        }
    }

    fn decide(&mut self) -> bool {
        let start = self.held.trim_start();
        if let Some(&(open, close)) = MARKS.iter().find(|(open, _)| start.starts_with(open)) {
            self.held = start[open.len()..].to_owned();
            self.state = State::Reasoning(close);
            return true;
        }
        let may_become_mark = MARKS.iter().any(|(open, _)| open.starts_with(start));
        if !may_become_mark {
            self.state = State::Content;
        }
        !may_become_mark
    }

    fn reason(&mut self, close: &'static str, parts: &mut Vec<ReplyPart>) -> bool {
        let found = self.held.find(close);
        let end = found.unwrap_or_else(|| self.held.len() - beginning_len(&self.held, close));
        if end > 0 {
            parts.push(ReplyPart::Reasoning(self.held[..end].to_owned()));
        }
        self.held.drain(..end + found.map_or(0, |_| close.len()));
        if found.is_some() {
            self.state = State::BeforeContent;
        }
        found.is_some()
    }
}

/// Length of the longest proper beginning of `mark` that `text` ends with.
fn beginning_len(text: &str, mark: &str) -> usize {
    (1..mark.len()).rev().find(|&len| text.as_bytes().ends_with(&mark.as_bytes()[..len])).unwrap_or(0)
}
