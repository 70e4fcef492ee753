//! The arithmetic of a replay, with drafters whose worth is known, and the reader of recordings.

use fanlight_drafter::{
    DraftTree, Drafter, History, Mixing, Node, Recording, Reliabilities, Replay, Visit, replay,
};
use fanlight_messages::draft::{DEPTH_MAX, MEMORY_TOKENS, SEPARATOR};

fn recording(id: &str, prompt: &[u32], output: &[u32]) -> Recording {
    Recording {
        id: id.into(),
        class: "answer".into(),
        split: "test".into(),
        prompt_ids: prompt.to_vec(),
        output_ids: output.to_vec(),
    }
}

/// Counts upwards from the last token, which is right for replies that do, and notes what it was shown.
#[derive(Default)]
struct Counting {
    off_by: u32,
    histories: Vec<History>,
    visits: Vec<Vec<Visit>>,
}

impl Drafter for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn draft(&mut self, history: &History) -> DraftTree {
        self.histories.push(history.clone());
        let last = history.token(history.root().unwrap());
        let node = |depth: u32| Node {
            token: last + depth + if depth > 0 { self.off_by } else { 0 },
            parent: depth.saturating_sub(1),
            depth,
            ..Node::default()
        };
        DraftTree { nodes: (0..=DEPTH_MAX).map(node).collect(), match_len: 0 }
    }

    fn learn(&mut self, _tree: &DraftTree, visits: &[Visit]) {
        self.visits.push(visits.to_vec());
    }
}

fn counted(width: u32, off_by: u32, output: &[u32]) -> Replay {
    let recording = recording("a", &[90, 91], output);
    let mut drafter = Counting { off_by, ..Counting::default() };
    let shares = replay(&[&recording], &mut drafter, width, false);
    assert_eq!(shares.len(), 1);
    shares[0]
}

#[test]
fn steps_are_counted_by_what_they_emit() {
    // Nineteen tokens after the first.
    let output: Vec<u32> = (0..20).collect();
    for (width, steps) in [(1, 19), (2, 10), (4, 5), (8, 3), (9, 3), (32, 3), (1000, 3)] {
        assert_eq!(counted(width, 0, &output), Replay { tokens: 19, steps }, "width {width}");
    }
    assert_eq!(counted(32, 1, &output), Replay { tokens: 19, steps: 19 }, "never right");
    assert_eq!(counted(32, 0, &[7]), Replay::default(), "the prompt's last batch chose the only token");
    assert_eq!(counted(32, 0, &[]), Replay::default());
    // Right up to the jump from 3 to 9: four tokens with the first step, four with the second.
    assert_eq!(counted(32, 0, &[0, 1, 2, 3, 9, 10, 11, 12]), Replay { tokens: 7, steps: 2 });
}

#[test]
fn the_walk_is_what_is_learned_from() {
    let one = recording("a", &[90], &[0, 1, 2, 3, 9, 10]);
    let mut drafter = Counting::default();
    replay(&[&one], &mut drafter, 32, false);
    let visit = |node, choice| Visit { node, choice };
    let first = vec![visit(0, 1), visit(1, 2), visit(2, 3), visit(3, 9)];
    assert_eq!(drafter.visits, [first, vec![visit(0, 10)]]);
}

#[test]
fn replies_before_are_remembered_with_memory_only() {
    let recordings = [recording("a", &[90], &[0, 1]), recording("b", &[91], &[5, 6])];
    let all: Vec<&Recording> = recordings.iter().collect();
    for (with_memory, remembered) in [(true, &[0, 1, SEPARATOR][..]), (false, &[SEPARATOR])] {
        let mut drafter = Counting::default();
        replay(&all, &mut drafter, 32, with_memory);
        let [first, second] = &drafter.histories[..] else { panic!("two steps") };
        assert_eq!(first.words()[MEMORY_TOKENS as usize..], [90, 0]);
        assert_eq!(second.words()[MEMORY_TOKENS as usize..], [91, 5]);
        assert_eq!(second.words()[second.first() as usize..MEMORY_TOKENS as usize], *remembered);
    }
}

#[test]
fn a_reply_that_is_remembered_costs_fewer_steps() {
    let output: Vec<u32> = (0..60).map(|i| i * i % 97).collect();
    let recordings = [recording("a", &[100], &output), recording("b", &[101], &output)];
    let all: Vec<&Recording> = recordings.iter().collect();
    for learns in [false, true] {
        let mut mixing = Mixing { reliabilities: Reliabilities::default(), learns };
        let alone = replay(&all, &mut mixing.clone(), 32, false);
        let remembered = replay(&all, &mut mixing, 32, true);
        assert_eq!(alone[0], remembered[0], "nothing is remembered yet");
        assert_eq!((remembered[1].tokens, alone[1].tokens), (59, 59));
        // Nine tokens a step once the match is sure, against about one.
        assert!(remembered[1].steps * 3 < alone[1].steps, "{remembered:?} against {alone:?}");
        assert_eq!(mixing.reliabilities == Reliabilities::default(), !learns);
    }
}

#[test]
fn shares_add_up() {
    let mut sum = Replay::default();
    assert_eq!(sum.tokens_per_step(), 1.0, "no step");
    sum += Replay { tokens: 9, steps: 2 };
    sum += Replay { tokens: 1, steps: 2 };
    assert_eq!((sum, sum.tokens_per_step()), (Replay { tokens: 10, steps: 4 }, 2.5));
}

const LINE: &str = r#"{"id":"a","class":"code","split":"learn","prompt_ids":[1,2],"output_ids":[3]}"#;

#[test]
fn recordings_are_read_and_a_broken_line_is_named() {
    let all = Recording::read_all(&format!("{LINE}\n\n{LINE}\n")).unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!((&all[1].prompt_ids[..], &all[1].output_ids[..]), (&[1, 2][..], &[3][..]));
    assert!(Recording::read_all("").unwrap().is_empty());
    let broken = [
        ("no json", "expected"),
        (r#"{"id":"a"}"#, "missing field"),
        (&LINE.replace("[3]", "[-3]"), "-3"),
        (&LINE.replace("[3]", "[4294967296]"), "4294967296"),
        (&LINE.replace("[3]", "\"3\""), "string"),
    ];
    for (line, reason) in broken {
        let error = Recording::read_all(&format!("{LINE}\n\n{line}\n{LINE}")).unwrap_err();
        assert_eq!(error.line, 3, "{error}");
        let text = error.to_string();
        assert!(text.starts_with("line 3 is no recorded reply") && text.contains(reason), "{text}");
    }
}

#[test]
fn a_recording_longer_than_any_context_is_refused() {
    let ids = |len: usize| vec!["7"; len].join(",");
    let line = |len: usize| LINE.replace("[1,2]", &format!("[{}]", ids(len)));
    assert_eq!(Recording::read_all(&line(32_767)).unwrap()[0].prompt_ids.len(), 32_767);
    let error = Recording::read_all(&line(32_768)).unwrap_err();
    assert!(error.to_string().contains("32769") && error.to_string().contains("32768"), "{error}");
}
