//! The plain commit of a step.

use fanlight_messages::control::{ControlBlock, END_IDS_MAX, END_IDS_WORD, RING_LEN, RING_WORD};

/// A slice of the logits row: value, id (`None` when it is empty) and hash.
pub(super) type Slice = (f32, Option<u32>, u32);

/// What a commit reads and writes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    /// The whole control buffer.
    pub(super) words: Vec<u32>,
    /// The token that the next step reads.
    pub(super) token: u32,
}

/// Commits the choice among `slices`; `fault` is the flag of broken activations.
pub(super) fn accept(state: &mut State, slices: &[Slice], fault: bool) {
    let mut control = ControlBlock::from_words(&state.words).expect("a whole control block");
    if control.end != 0 {
        return;
    }
    let mut best: Option<(f32, u32)> = None;
    for (value, id, _) in slices {
        if let Some(id) = id
            && best.is_none_or(|(largest, _)| *value > largest)
        {
            best = Some((*value, *id));
        }
    }
    let (_, token) = best.expect("a row has a logit");
    control.committed += control.live;
    control.live = 1;
    if fault {
        (control.poison, control.end) = (1, 4);
    } else {
        let row_hash = slices.iter().fold(0u32, |sum, (_, _, hash)| sum.wrapping_add(*hash));
        control.hash = (control.hash ^ row_hash).wrapping_mul(0x0100_0193).wrapping_add(0x9E37_79B9);
        if state.words[END_IDS_WORD as usize..][..END_IDS_MAX as usize].contains(&token) {
            control.end = 1;
        } else {
            state.words[(RING_WORD + control.ring_head % RING_LEN) as usize] = token;
            control.ring_head += 1;
            state.token = token;
            control.tokens_left -= 1;
            if control.tokens_left == 0 {
                control.end = 2;
            } else if control.committed >= control.context {
                control.end = 3;
            }
        }
    }
    state.words[..9].copy_from_slice(&control.to_words());
}
