//! Recorded replies in, mean tokens per step out: what a drafter would have been worth.

use fanlight_messages::draft::{NODES_MAX, SEPARATOR};
use fanlight_messages::limits::CONTEXT_LEN_MAX;
use serde::Deserialize;

use crate::{DraftTree, History, Reliabilities, Visit, draft, find_matches};

/// Something that drafts a tree below the last token of a history.
pub trait Drafter {
    /// For tables.
    fn name(&self) -> &'static str;
    /// The tree, at most [`NODES_MAX`] nodes in the order in which narrower steps take them.
    fn draft(&mut self, history: &History) -> DraftTree;
    /// Hears what was chosen at the nodes that the walk visited.
    fn learn(&mut self, _tree: &DraftTree, _visits: &[Visit]) {}
    /// What it has learned, where it learns.
    fn reliabilities(&self) -> Option<Reliabilities> {
        None
    }
}

/// Our own drafter.
#[derive(Debug, Clone, Default)]
pub struct Mixing {
    /// What it trusts, and where learning has brought it.
    pub reliabilities: Reliabilities,
    /// False keeps them as they are.
    pub learns: bool,
}

impl Mixing {
    /// Its name while it learns.
    pub const LEARNED: &str = "mixing, learned";
}

impl Drafter for Mixing {
    fn name(&self) -> &'static str {
        if self.learns { Self::LEARNED } else { "mixing, fixed" }
    }

    fn reliabilities(&self) -> Option<Reliabilities> {
        Some(self.reliabilities.clone())
    }

    fn draft(&mut self, history: &History) -> DraftTree {
        draft(history, &find_matches(history), &self.reliabilities, u32::MAX)
    }

    fn learn(&mut self, tree: &DraftTree, visits: &[Visit]) {
        if self.learns {
            self.reliabilities.learn(tree, visits);
        }
    }
}

/// A recorded greedy reply: one JSON object per line of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Recording {
    /// Which prompt.
    pub id: String,
    /// Its task class.
    pub class: String,
    /// `learn` or `test`.
    pub split: String,
    /// The prompt's ids.
    pub prompt_ids: Vec<u32>,
    /// The reply's ids.
    pub output_ids: Vec<u32>,
}

/// A line that is no recording.
#[derive(Debug, thiserror::Error)]
#[error("line {line} is no recorded reply: {reason}")]
pub struct RecordingError {
    /// Which line, from 1.
    pub line: usize,
    /// What the reader said.
    pub reason: String,
}

impl Recording {
    /// Reads JSON lines.
    ///
    /// # Errors
    /// The first line that is not one.
    pub fn read_all(text: &str) -> Result<Vec<Self>, RecordingError> {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        lines
            .map(|(line, text)| {
                let error = |reason| RecordingError { line, reason };
                let recording: Self = serde_json::from_str(text).map_err(|e| error(e.to_string()))?;
                // Matches are ranked by indices of 16 bits, which reach over memory and the longest context.
                let tokens = recording.prompt_ids.len() + recording.output_ids.len();
                if tokens > CONTEXT_LEN_MAX as usize {
                    return Err(error(format!("{tokens} tokens, a context has {CONTEXT_LEN_MAX} at most")));
                }
                Ok(recording)
            })
            .collect()
    }
}

/// Tokens and steps of some replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replay {
    /// Tokens that steps emitted: all of a reply but its first.
    pub tokens: u64,
    /// Steps that emitted them.
    pub steps: u64,
}

impl Replay {
    /// Mean tokens per step; 1 when there was no step.
    pub fn tokens_per_step(self) -> f64 {
        if self.steps == 0 { 1.0 } else { self.tokens as f64 / self.steps as f64 }
    }
}

impl std::ops::AddAssign for Replay {
    fn add_assign(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.steps += other.steps;
    }
}

/// Replays recordings in order with steps of `width` nodes; with `memory`, each reply is remembered for those
/// after it. Gives each recording's share.
pub fn replay(
    recordings: &[&Recording],
    drafter: &mut dyn Drafter,
    width: u32,
    with_memory: bool,
) -> Vec<Replay> {
    let mut memory: Vec<u32> = Vec::new();
    let mut shares = Vec::with_capacity(recordings.len());
    for recording in recordings {
        let mut history = History::new(if with_memory { &memory } else { &[] });
        history.extend(&recording.prompt_ids);
        shares.push(replay_reply(&mut history, &recording.output_ids, drafter, width.min(NODES_MAX)));
        memory.extend(&recording.output_ids);
        memory.push(SEPARATOR);
    }
    shares
}

fn replay_reply(history: &mut History, output: &[u32], drafter: &mut dyn Drafter, width: u32) -> Replay {
    let mut share = Replay::default();
    let Some((first, mut rest)) = output.split_first() else { return share };
    history.extend(&[*first]);
    while !rest.is_empty() {
        let tree = drafter.draft(history);
        let visits = tree.visits(width, rest);
        drafter.learn(&tree, &visits);
        let (emitted, left) = rest.split_at(visits.len());
        history.extend(emitted);
        share += Replay { tokens: emitted.len() as u64, steps: 1 };
        rest = left;
    }
    share
}
