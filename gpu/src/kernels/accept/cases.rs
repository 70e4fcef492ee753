//! Commits in every state of the control block, word for word: plain steps, prompts and draft trees.

use fanlight_messages::control::{BLOCK_WORDS, ControlBlock, END_IDS_MAX, END_IDS_WORD, RING_LEN, RING_WORD};
use fanlight_messages::draft::{ANCESTOR_STRIDE, DRAFT_BYTES};

use super::twin::{CONTEXT, Slice, State, accept, packed_path};
use super::{Bindings, Form, Params, Variant};
use crate::kernels::choose;
use crate::kernels::testing::{Place, Wanted, block_on, control, lab};
use crate::lab::{Lab, Noise};

/// A step: the control block before it, end ids, what each node chooses from, and the fault bits.
struct Case {
    name: String,
    form: Form,
    control: ControlBlock,
    end_ids: Vec<u32>,
    rows: Vec<Vec<Slice>>,
    /// Node tokens and parents; a single root when it is no tree.
    tokens: Vec<u32>,
    parents: Vec<usize>,
    faults: u32,
}

/// Slices whose maximum is `id`, in slice `id / 100`.
fn choosing(id: u32) -> Vec<Slice> {
    (0..choose::SLICES)
        .map(|s| {
            (
                if s == id / 100 { 3.0 } else { -1.0 },
                Some(if s == id / 100 { id } else { s * 100 }),
                s * 77 + id,
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
        steps: 14,
        ..ControlBlock::default()
    }
}

fn plain(name: &str, control: ControlBlock, id: u32) -> Case {
    Case {
        name: name.into(),
        form: Form::Plain,
        control,
        end_ids: vec![2, 500],
        rows: vec![choosing(id)],
        tokens: vec![31],
        parents: vec![0],
        faults: 0,
    }
}

fn with(change: impl FnOnce(&mut ControlBlock)) -> ControlBlock {
    let mut control = running();
    change(&mut control);
    control
}

fn plain_cases() -> Vec<Case> {
    let case = plain;
    let mut list = vec![
        case("an ordinary token", running(), 1234),
        case("the first end id", running(), 2),
        case("the second end id", running(), 500),
        case("the last token allowed", with(|c| c.tokens_left = 1), 1234),
        case("an end id as the last token allowed", with(|c| c.tokens_left = 1), 500),
        case("one position left", with(|c| c.committed = 4094), 1234),
        case("the context is full", with(|c| c.committed = 4095), 1234),
        case("limit and context at once", with(|c| (c.committed, c.tokens_left) = (4095, 1)), 1234),
        case("the last slot of the ring", with(|c| c.ring_head = RING_LEN - 1), 1234),
        case("the ring wraps", with(|c| c.ring_head = RING_LEN), 1234),
        case("the ring wrapped long ago", with(|c| c.ring_head = 5 * RING_LEN + 3), 1234),
        case("the records wrap", with(|c| c.steps = 16 * 9 + 15), 1234),
        case("rows that a tree left are no longer pending", with(|c| c.pending = 0x8000_0005), 1234),
    ];
    for end in 1..=4 {
        list.push(case("after the end", with(|c| c.end = end), 1234));
    }
    list.push(Case { faults: 1, ..case("a broken activation", running(), 1234) });
    list.push(Case { faults: 1, ..case("a broken activation at an end id", running(), 2) });
    list.push(Case { faults: 2, ..case("a broken row that is not this one", running(), 1234) });
    let prompt =
        |name, live, faults| Case { form: Form::Prompt, faults, ..case(name, with(|c| c.live = live), 1234) };
    list.push(prompt("the end of a prompt of 37", 37, 0));
    list.push(prompt("a prompt of one", 1, 0));
    list.push(prompt("a prompt with a broken row", 37, 1 << 20));
    let last = (0..END_IDS_MAX).map(|i| 9000 + i).collect();
    list.push(Case { end_ids: last, ..case("the last of 64 end ids", running(), 1234) });
    if let Some(case) = list.last_mut() {
        case.rows = vec![choosing(6300)];
        case.rows[0][63].1 = Some(9063);
    }
    let mut tied = choosing(1234);
    tied[40] = (3.0, Some(4001), 5);
    tied[63] = (3.0, Some(6302), 5);
    list.push(Case { rows: vec![tied], ..case("a tie goes to the lowest id", running(), 1234) });
    let mut zeros = choosing(0);
    zeros.iter_mut().enumerate().for_each(|(s, slice)| slice.0 = if s < 9 { -0.0 } else { 0.0 });
    list.push(Case { rows: vec![zeros], ..case("zeros of both signs tie", running(), 0) });
    let mut short = choosing(0);
    short[1..].iter_mut().for_each(|slice| *slice = (-3.402_823_4e38, None, 0));
    short[0].0 = -9e37;
    list.push(Case { rows: vec![short], ..case("63 empty slices", running(), 0) });
    list
}

/// A tree of `live` nodes below a random one each, of whose choices a chain of `accepted` is drafted.
fn tree(name: String, seed: u64, live: usize, accepted: usize, control: ControlBlock) -> Case {
    let mut noise = Noise::new(seed);
    let mut pick = |below: usize| noise.bits() as usize % below;
    let mut parents = vec![0usize];
    let mut depths = vec![0u32];
    // The chain sits at random places, in order; the other nodes hang anywhere that is not too deep.
    let mut chain = vec![0];
    for n in 1..live {
        let (on_chain, left) = (chain.len() <= accepted, live - n);
        let takes = on_chain && (left <= accepted + 1 - chain.len() || pick(2) == 0);
        let parent = if takes { chain[chain.len() - 1] } else { pick(n) };
        let parent = if depths[parent] >= 8 { 0 } else { parent };
        parents.push(parent);
        depths.push(depths[parent] + 1);
        if takes {
            chain.push(n);
        }
    }
    let rows: Vec<Vec<Slice>> =
        (0..live).map(|n| choosing(1000 + 100 * (n as u32 % 50) + seed as u32 % 7)).collect();
    let chosen = |n: usize| 1000 + 100 * (n as u32 % 50) + seed as u32 % 7;
    let tokens = (0..live)
        .map(|n| if n > 0 && chain.contains(&n) { chosen(parents[n]) } else { 7000 + n as u32 })
        .collect();
    let control = ControlBlock { live: live as u32, ..control };
    Case { form: Form::Tree, rows, tokens, parents, ..plain(&name, control, 1000) }
}

fn tree_cases() -> Vec<Case> {
    let mut list = Vec::new();
    for (seed, (live, accepted)) in
        [(1, 0), (2, 0), (2, 1), (4, 2), (8, 0), (8, 7), (9, 8), (16, 5), (32, 0), (32, 4), (32, 8)]
            .into_iter()
            .enumerate()
    {
        for parity in [0, 0x8000_0003] {
            let name = format!("{live} nodes, {accepted} accepted, pending {parity:x}");
            list.push(tree(name, seed as u64, live, accepted, with(|c| c.pending = parity)));
        }
    }
    for left in 1..=6 {
        list.push(tree(format!("{left} tokens left"), 90, 16, 5, with(|c| c.tokens_left = left)));
        list.push(tree(format!("{left} positions left"), 91, 16, 5, with(|c| c.committed = 4096 - left)));
    }
    for depth in 0..=5u32 {
        let mut case = tree(format!("an end id chosen at depth {depth}"), 92, 16, 5, running());
        case.end_ids = vec![ids_on_path(&case)[depth as usize]];
        list.push(case);
        let mut case = tree(format!("a fault at depth {depth}"), 93, 16, 5, running());
        case.faults = 1 << nodes_on_path(&case)[depth as usize];
        list.push(case);
    }
    let mut case = tree("faults of rejected nodes only".into(), 94, 32, 3, running());
    let path = nodes_on_path(&case);
    case.faults = (0..32).filter(|n| !path.contains(n)).fold(0, |bits, n| bits | 1 << n);
    list.push(case);
    list.push(tree("after the end".into(), 95, 16, 5, with(|c| c.end = 1)));
    list
}

fn nodes_on_path(case: &Case) -> Vec<usize> {
    let packed = packed_path(&case.tokens, &case.rows, &case.parents, case.tokens.len());
    let nodes = packed.into_iter().flat_map(|word| word.to_le_bytes()).map(usize::from);
    [0].into_iter().chain(nodes.take_while(|node| *node != 0)).collect()
}

fn ids_on_path(case: &Case) -> Vec<u32> {
    let best = |row: &Vec<Slice>| row.iter().find(|s| s.0 == 3.0).and_then(|s| s.1).expect("a best id");
    nodes_on_path(case).into_iter().map(|node| best(&case.rows[node])).collect()
}

fn ancestors(parents: &[usize]) -> Vec<u32> {
    let mut words = vec![0; 32 * ANCESTOR_STRIDE as usize];
    for (node, row) in words.chunks_exact_mut(ANCESTOR_STRIDE as usize).enumerate().take(parents.len()) {
        let mut path = vec![node as u32];
        while path[0] != 0 {
            path.insert(0, parents[path[0] as usize] as u32);
        }
        row[..path.len()].copy_from_slice(&path);
        row[ANCESTOR_STRIDE as usize - 1] = path.len() as u32 - 1;
    }
    words
}

/// Runs the kernel on a state.
async fn run(lab: &Lab, before: &State, rows: &[Vec<Slice>], parents: &[usize], form: Form) -> State {
    let mut partials: Vec<u32> = rows
        .iter()
        .flatten()
        .flat_map(|(value, id, hash)| [value.to_bits(), id.unwrap_or(u32::MAX), *hash, 0])
        .collect();
    partials.resize(32 * choose::SLICES as usize * 4, 0x5555_5555);
    let partials = lab.words(&partials).await.expect("a buffer");
    let tokens = lab.words(&before.tokens).await.expect("a buffer");
    let draft = lab.words(&before.draft).await.expect("a buffer");
    let mut all = vec![0; CONTEXT];
    all.extend(&before.history);
    let history = lab.words(&all).await.expect("a buffer");
    let table = lab.words(&ancestors(parents)).await.expect("a buffer");
    let faults = lab.words(&[before.faults]).await.expect("a buffer");
    let control = lab.words(&before.words).await.expect("a buffer");
    let bindings = Bindings {
        partials: partials.slice(),
        tokens: tokens.slice(),
        draft: draft.slice(),
        history: history.slice(),
        ancestors: table.slice(),
        faults: faults.slice(),
        control: control.slice(),
    };
    lab.run(Variant, &bindings, Params { form: form as u32 }, [1, 1, 1]).await.expect("a run");
    let read = async |buffer, len: usize| lab.read(buffer, len).await.expect("a readback");
    State {
        words: read(&control, before.words.len()).await,
        tokens: read(&tokens, before.tokens.len()).await,
        draft: read(&draft, before.draft.len()).await,
        history: read(&history, all.len()).await.split_off(CONTEXT),
        faults: read(&faults, 1).await[0],
    }
}

fn before(case: &Case) -> State {
    let mut words = control(0, 0);
    words[..BLOCK_WORDS].copy_from_slice(&case.control.to_words());
    words[END_IDS_WORD as usize..][..case.end_ids.len()].copy_from_slice(&case.end_ids);
    for slot in 0..RING_LEN {
        words[(RING_WORD + slot) as usize] = 70_000 + slot;
    }
    let mut noise = Noise::new(5);
    // Small numbers, as a draft kernel leaves them: counts in bytes.
    let draft = (0..DRAFT_BYTES / 4).map(|_| noise.bits() % 33).collect();
    let mut tokens = case.tokens.clone();
    tokens.resize(32, 42);
    State { words, tokens, draft, history: vec![80_000; 4100], faults: case.faults }
}

#[test]
fn every_commit_is_as_the_twin_does_it() {
    let lab = &lab();
    for case in plain_cases().into_iter().chain(tree_cases()) {
        let before = before(&case);
        let mut after = before.clone();
        accept(&mut after, &case.rows, &case.parents, case.form);
        assert_eq!(case.control.end != 0, after == before, "{}: only an ended run stays", case.name);
        if case.form == Form::Tree && case.control.end == 0 {
            let path = packed_path(&case.tokens, &case.rows, &case.parents, case.tokens.len());
            after.words[9..11].copy_from_slice(&path);
        }
        let got = block_on(run(lab, &before, &case.rows, &case.parents, case.form));
        let place =
            Place { kernel: "accept", case: &case.name, what: "control buffer", row_len: got.words.len() };
        let bits = |words: &[u32]| words.iter().copied().map(Wanted::Bits).collect::<Vec<_>>();
        place.assert(&bits(&after.words), &got.words);
        Place { what: "tokens", ..place }.assert(&bits(&after.tokens), &got.tokens);
        Place { what: "draft", ..place }.assert(&bits(&after.draft), &got.draft);
        Place { what: "history", ..place }.assert(&bits(&after.history), &got.history);
        assert_eq!(got.faults, after.faults, "{}: faults", case.name);
    }
}

/// 300 tokens one by one: every id reaches its slot and the limit ends it.
#[test]
fn a_long_reply_fills_the_ring_more_than_twice() {
    let lab = &lab();
    let start = plain("", ControlBlock { tokens_left: 300, ring_head: 0, ..running() }, 0);
    let mut state = before(&start);
    for step in 0..302u32 {
        let rows = [choosing(step * 17 % 6400)];
        let got = block_on(run(lab, &state, &rows, &[0], Form::Plain));
        accept(&mut state, &rows, &[0], Form::Plain);
        assert_eq!(got, state, "step {step}");
    }
    let end = ControlBlock::from_words(&state.words).expect("a control block");
    assert_eq!((end.ring_head, end.tokens_left, end.end, end.committed), (300, 0, 2, 390));
}
