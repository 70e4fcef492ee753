//! The plain commit of a step.

use fanlight_messages::control::{
    BLOCK_WORDS, ControlBlock, END_IDS_MAX, END_IDS_WORD, EndReason, HASHES_WORD, RECORD_WORDS, RECORDS,
    RECORDS_WORD, RING_LEN, RING_WORD,
};
use fanlight_messages::draft::{
    CHOICES_WORD, DEPTH_MAX, EXPECTED_WORD, MEMORY_TOKENS, PATH_WORD, VISITED_WORD,
};

use super::Form;

/// A slice of a logits row: value, id (`None` when it is empty) and hash.
pub(super) type Slice = (f32, Option<u32>, u32);

/// What a commit reads and writes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    /// The whole control buffer.
    pub(super) words: Vec<u32>,
    /// The tokens of the step's nodes.
    pub(super) tokens: Vec<u32>,
    /// The draft buffer.
    pub(super) draft: Vec<u32>,
    /// The history from the context on.
    pub(super) history: Vec<u32>,
    /// A bit per row.
    pub(super) faults: u32,
}

fn choice(slices: &[Slice]) -> u32 {
    let mut best: Option<(f32, u32)> = None;
    for (value, id, _) in slices {
        if let Some(id) = id
            && best.is_none_or(|(largest, _)| *value > largest)
        {
            best = Some((*value, *id));
        }
    }
    best.expect("a row has a logit").1
}

fn row_hash(slices: &[Slice]) -> u32 {
    slices.iter().fold(0, |sum, (_, _, hash)| sum.wrapping_add(*hash))
}

/// Commits what `rows` choose; `parents[n]` is the parent of node n.
pub(super) fn accept(state: &mut State, rows: &[Vec<Slice>], parents: &[usize], form: Form) {
    let mut control = ControlBlock::from_words(&state.words).expect("a whole control block");
    if control.end != 0 {
        return;
    }
    let live = control.live as usize;
    if form == Form::Prompt {
        control.committed += control.live - 1;
    }
    let (first_head, faults) = (control.ring_head, state.faults);
    let (mut node, mut path) = (0, Vec::new());
    control.end = loop {
        control.committed += 1;
        let fault = if form == Form::Prompt { faults } else { faults >> node & 1 };
        if fault != 0 {
            control.poison = 1;
            break EndReason::Poisoned as u32;
        }
        let token = choice(&rows[node]);
        control.hash =
            (control.hash ^ row_hash(&rows[node])).wrapping_mul(0x0100_0193).wrapping_add(0x9E37_79B9);
        state.draft[CHOICES_WORD as usize + path.len()] = token;
        state.draft[PATH_WORD as usize + path.len()] = node as u32;
        if state.words[END_IDS_WORD as usize..][..END_IDS_MAX as usize].contains(&token) {
            break EndReason::EndToken as u32;
        }
        state.words[(RING_WORD + control.ring_head % RING_LEN) as usize] = token;
        state.words[(HASHES_WORD + control.ring_head % RING_LEN) as usize] = control.hash;
        control.ring_head += 1;
        control.tokens_left -= 1;
        let child =
            (1..live).find(|n| form == Form::Tree && parents[*n] == node && state.tokens[*n] == token);
        if control.tokens_left == 0 {
            break EndReason::TokenLimit as u32;
        } else if control.committed >= control.context {
            break EndReason::ContextFull as u32;
        }
        state.history[control.committed as usize] = token;
        match child.filter(|_| path.len() < DEPTH_MAX as usize) {
            Some(child) => {
                path.push(child);
                node = child;
            }
            None => break 0,
        }
    };
    // The last token emitted is the next root.
    if control.ring_head > first_head {
        state.tokens[0] = state.words[(RING_WORD + (control.ring_head - 1) % RING_LEN) as usize];
    }
    let emitted = control.ring_head - first_head;
    finish(state, &mut control, &path, form, emitted);
}

/// What a step leaves for the next one and for the host. `path` holds the committed nodes below the root.
fn finish(state: &mut State, control: &mut ControlBlock, path: &[usize], form: Form, emitted: u32) {
    let is_tree = form == Form::Tree;
    let visited =
        if is_tree && control.end != EndReason::Poisoned as u32 { path.len() as u32 + 1 } else { 0 };
    state.draft[VISITED_WORD as usize] = visited;
    let parity = control.pending & 0x8000_0000;
    control.pending = if is_tree { (parity ^ 0x8000_0000) | path.len() as u32 } else { parity };
    if form != Form::Prompt {
        let at = (RECORDS_WORD + control.steps % RECORDS * RECORD_WORDS) as usize;
        let draft = &state.draft;
        let e = |k: usize| (draft[EXPECTED_WORD as usize + k] >> 10).min(1023);
        let record = match is_tree {
            true => [
                control.live | emitted << 8 | draft[1] << 16 | draft[0] << 24,
                e(0) | e(1) << 10 | e(2) << 20,
                e(3) | e(4) << 10 | (path.len() as u32) << 20,
            ],
            false => [control.live | emitted << 8, 0, 0],
        };
        state.words[at..at + 3].copy_from_slice(&record);
        control.steps += 1;
    }
    control.live = 1;
    state.faults = 0;
    state.words[..BLOCK_WORDS].copy_from_slice(&control.to_words());
}

/// The accepted chain, committed or not, as the control block packs it: nodes whose tokens their parents
/// chose.
pub(super) fn packed_path(tokens: &[u32], rows: &[Vec<Slice>], parents: &[usize], live: usize) -> [u32; 2] {
    let (mut node, mut packed, mut depth) = (0, 0u64, 0);
    while let Some(child) = (1..live).find(|n| parents[*n] == node && tokens[*n] == choice(&rows[node])) {
        packed |= (child as u64) << (8 * depth);
        (node, depth) = (child, depth + 1);
    }
    [packed as u32, (packed >> 32) as u32]
}

/// Where the history of a context begins.
pub(super) const CONTEXT: usize = MEMORY_TOKENS as usize;
