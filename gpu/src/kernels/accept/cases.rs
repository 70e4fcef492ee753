//! Commits in every state of the control block, word for word.

use fanlight_messages::control::{ControlBlock, END_IDS_MAX, END_IDS_WORD, RING_LEN, RING_WORD};

use super::twin::{Slice, State, accept};
use crate::kernels::testing::{Place, Wanted, block_on, control, lab};
use crate::kernels::{Kernel, choose};
use crate::lab::Lab;

/// A step: the control block before it, end ids, what was chosen from, and the fault flag.
struct Case {
    name: &'static str,
    control: ControlBlock,
    end_ids: Vec<u32>,
    slices: Vec<Slice>,
    fault: bool,
}

/// Slices whose maximum is `id`, in slice `id / 100`.
fn choosing(id: u32) -> Vec<Slice> {
    (0..choose::SLICES)
        .map(|s| {
            (
                if s == id / 100 { 3.0 } else { -1.0 },
                Some(if s == id / 100 { id } else { s * 100 }),
                s * 77 + 1,
            )
        })
        .collect()
}

fn running() -> ControlBlock {
    ControlBlock {
        committed: 90,
        live: 1,
        context: 4096,
        tokens_left: 50,
        ring_head: 11,
        hash: 7,
        ..ControlBlock::default()
    }
}

fn cases() -> Vec<Case> {
    let case =
        |name, control, id| Case { name, control, end_ids: vec![2, 500], slices: choosing(id), fault: false };
    let with = |change: &dyn Fn(&mut ControlBlock)| {
        let mut control = running();
        change(&mut control);
        control
    };
    let mut list = vec![
        case("an ordinary token", running(), 1234),
        case("the end of a prompt of 37", with(&|c| c.live = 37), 1234),
        case("the first end id", running(), 2),
        case("the second end id", running(), 500),
        case("the last token allowed", with(&|c| c.tokens_left = 1), 1234),
        case("an end id as the last token allowed", with(&|c| c.tokens_left = 1), 500),
        case("one position left", with(&|c| c.committed = 4094), 1234),
        case("the context is full", with(&|c| c.committed = 4095), 1234),
        case("limit and context at once", with(&|c| (c.committed, c.tokens_left) = (4095, 1)), 1234),
        case("the last slot of the ring", with(&|c| c.ring_head = RING_LEN - 1), 1234),
        case("the ring wraps", with(&|c| c.ring_head = RING_LEN), 1234),
        case("the ring wrapped long ago", with(&|c| c.ring_head = 5 * RING_LEN + 3), 1234),
        case("pending rows and parity stay", with(&|c| c.pending = 0x8000_0005), 1234),
    ];
    for end in 1..=4 {
        list.push(case("after the end", with(&|c| c.end = end), 1234));
    }
    list.push(Case { fault: true, ..case("a broken activation", running(), 1234) });
    list.push(Case { fault: true, ..case("a broken activation at an end id", running(), 2) });
    let last = (0..END_IDS_MAX).map(|i| 9000 + i).collect();
    list.push(Case { end_ids: last, ..case("the last of 64 end ids", running(), 1234) });
    if let Some(case) = list.last_mut() {
        case.slices = choosing(6300);
        case.slices[63].1 = Some(9063);
    }
    let mut tied = choosing(1234);
    tied[40] = (3.0, Some(4001), 5);
    tied[63] = (3.0, Some(6302), 5);
    list.push(Case { slices: tied, ..case("a tie goes to the lowest id", running(), 1234) });
    let mut zeros = choosing(0);
    zeros.iter_mut().enumerate().for_each(|(s, slice)| slice.0 = if s < 9 { -0.0 } else { 0.0 });
    list.push(Case { slices: zeros, ..case("zeros of both signs tie", running(), 0) });
    let mut short = choosing(0);
    short[1..].iter_mut().for_each(|slice| *slice = (-3.402_823_4e38, None, 0));
    short[0].0 = -9e37;
    list.push(Case { slices: short, ..case("63 empty slices", running(), 0) });
    list
}

/// Runs the kernel: the control buffer and the token buffer after it.
async fn run(lab: &Lab, before: &State, slices: &[Slice], fault: bool) -> (Vec<u32>, Vec<u32>) {
    let partials: Vec<u32> = slices
        .iter()
        .flat_map(|(value, id, hash)| [value.to_bits(), id.unwrap_or(u32::MAX), *hash, 0])
        .collect();
    let partials = lab.words(&partials).await.expect("a buffer");
    let tokens = lab.words(&[before.token, 42]).await.expect("a buffer");
    let faults = lab.words(&[u32::from(fault)]).await.expect("a buffer");
    let control = lab.words(&before.words).await.expect("a buffer");
    let bindings = [(0, &partials), (1, &tokens), (6, &faults), (7, &control)];
    lab.run(Kernel::Accept, &bindings, 0u32, [1, 1, 1]).await.expect("a run");
    let words = lab.read(&control, before.words.len()).await.expect("a readback");
    (words, lab.read(&tokens, 2).await.expect("a readback"))
}

#[test]
fn every_commit_is_as_the_twin_does_it() {
    let lab = &lab();
    for case in cases() {
        let mut words = control(0, 0);
        words[..9].copy_from_slice(&case.control.to_words());
        words[END_IDS_WORD as usize..][..case.end_ids.len()].copy_from_slice(&case.end_ids);
        for slot in 0..RING_LEN {
            words[(RING_WORD + slot) as usize] = 70_000 + slot;
        }
        let before = State { words, token: 31 };
        let mut after = before.clone();
        accept(&mut after, &case.slices, case.fault);
        assert_eq!(case.control.end != 0, after == before, "{}: only an ended run stays", case.name);
        let (got, tokens) = block_on(run(lab, &before, &case.slices, case.fault));
        let place = Place { kernel: "accept", case: case.name, what: "control buffer", row_len: got.len() };
        let bits = |words: &[u32]| words.iter().copied().map(Wanted::Bits).collect::<Vec<_>>();
        place.assert(&bits(&after.words), &got);
        Place { what: "tokens", ..place }.assert(&bits(&[after.token, 42]), &tokens);
    }
}

/// 300 tokens one by one: every id reaches its slot and the limit ends it.
#[test]
fn a_long_reply_fills_the_ring_more_than_twice() {
    let lab = &lab();
    let mut words = control(0, 0);
    words[..9].copy_from_slice(&ControlBlock { tokens_left: 300, ring_head: 0, ..running() }.to_words());
    let mut state = State { words, token: 0 };
    for step in 0..302u32 {
        let slices = choosing(step * 17 % 6400);
        let (got, tokens) = block_on(run(lab, &state, &slices, false));
        accept(&mut state, &slices, false);
        assert_eq!((&got, tokens[0]), (&state.words, state.token), "step {step}");
    }
    let end = ControlBlock::from_words(&state.words).expect("a control block");
    assert_eq!((end.ring_head, end.tokens_left, end.end, end.committed), (300, 0, 2, 390));
}
