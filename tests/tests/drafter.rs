//! The drafting kernels against the drafter crate: equal trees, equal counts and equal learning, over random
//! and natural text, with and without session memory.

use fanlight_drafter::{DraftTree, History, Reliabilities, Visit, draft, find_matches};
use fanlight_gpu::device::{AdapterPreference, Device};
use fanlight_gpu::kernels::{self, scan};
use fanlight_gpu::lab::{Lab, LabBuffer, Noise};
use fanlight_messages::control::CONTROL_BYTES;
use fanlight_messages::draft::*;
use futures::executor::block_on;

/// What the draft kernel reads and writes.
struct Buffers {
    matches: LabBuffer,
    tokens: LabBuffer,
    draft: LabBuffer,
    ancestors: LabBuffer,
}

struct Bench {
    lab: Lab,
    buffers: Buffers,
    /// The CPU's side of what the draft buffer remembers.
    reliabilities: Reliabilities,
}

impl Bench {
    fn new() -> Self {
        let device =
            block_on(Device::open(AdapterPreference::HighPerformance)).expect("a GPU adapter is required");
        let lab = Lab::new(&device);
        let reliabilities = Reliabilities::default();
        let mut draft = vec![0; (DRAFT_BYTES / 4) as usize];
        let learned: Vec<u32> = reliabilities.0.iter().flatten().copied().collect();
        draft[RELIABILITY_WORD as usize..][..learned.len()].copy_from_slice(&learned);
        let buffers = block_on(async {
            Buffers {
                matches: lab.words(&vec![0xdead_beef; (MATCHES_BYTES / 4) as usize]).await.expect("a buffer"),
                tokens: lab.words(&[0xdead_beef; NODES_MAX as usize]).await.expect("a buffer"),
                draft: lab.words(&draft).await.expect("a buffer"),
                ancestors: lab.zeros((ANCESTOR_BYTES / 4) as usize).await.expect("a buffer"),
            }
        });
        Self { lab, buffers, reliabilities }
    }

    /// Drafts on both sides, compares, and gives the tree. `context` bounds the depth.
    fn step(&mut self, history: &History, width: u32, context: u32, name: &str) -> DraftTree {
        let committed = history.root().expect("a context") - MEMORY_TOKENS;
        let tree = draft(history, &find_matches(history), &self.reliabilities, context - committed - 1);
        let got = block_on(self.run(history, committed, width, context));
        got.assert_equal(&tree, &self.reliabilities, width, name);
        tree
    }

    async fn run(&self, history: &History, committed: u32, width: u32, context: u32) -> Drafted {
        let (lab, b) = (&self.lab, &self.buffers);
        let mut words = vec![0u32; (CONTROL_BYTES / 4) as usize];
        words[..3].copy_from_slice(&[committed, 1, context]);
        let control = lab.words(&words).await.expect("a buffer");
        let history_words = lab.words(history.words()).await.expect("a buffer");
        let record = scan::Params { first: history.first(), width };
        // More workgroups than there are positions, as the host's bound may ask for.
        let mut groups = scan::groups(history.first(), committed);
        groups[0] = (groups[0] + 1).min(SCAN_GROUPS_MAX);
        let bindings = scan::Bindings {
            history: history_words.slice(),
            matches: b.matches.slice(),
            control: control.slice(),
        };
        lab.run(scan::Variant, &bindings, record, groups).await.expect("a run");
        let root = history.token(history.root().expect("a root"));
        // The root's token is where the accept kernel left it.
        let mut tokens = lab.read(&b.tokens, NODES_MAX as usize).await.expect("a readback");
        tokens[0] = root;
        let tokens = lab.words(&tokens).await.expect("a buffer");
        let bindings = kernels::draft::Bindings {
            matches: b.matches.slice(),
            tokens: tokens.slice(),
            draft: b.draft.slice(),
            history: history_words.slice(),
            ancestors: b.ancestors.slice(),
            control: control.slice(),
        };
        lab.run(kernels::draft::Variant, &bindings, record, [1, 1, 1]).await.expect("a run");
        Drafted {
            tokens: lab.read(&tokens, NODES_MAX as usize).await.expect("a readback"),
            draft: lab.read(&b.draft, (DRAFT_BYTES / 4) as usize).await.expect("a readback"),
            ancestors: lab.read(&b.ancestors, (ANCESTOR_BYTES / 4) as usize).await.expect("a readback"),
            live: lab.read(&control, 2).await.expect("a readback")[1],
        }
    }

    /// Both sides hear what was chosen at the visited nodes.
    fn learn(&mut self, tree: &DraftTree, visits: &[Visit]) {
        self.reliabilities.learn(tree, visits);
        block_on(async {
            let len = (DRAFT_BYTES / 4) as usize;
            let mut draft = self.lab.read(&self.buffers.draft, len).await.expect("a readback");
            draft[VISITED_WORD as usize] = visits.len() as u32;
            for (k, visit) in visits.iter().enumerate() {
                draft[CHOICES_WORD as usize + k] = visit.choice;
                draft[PATH_WORD as usize + k] = visit.node as u32;
            }
            self.buffers.draft = self.lab.words(&draft).await.expect("a buffer");
            let mut tokens: Vec<u32> = tree.nodes.iter().map(|n| n.token).collect();
            tokens.resize(NODES_MAX as usize, 0);
            self.buffers.tokens = self.lab.words(&tokens).await.expect("a buffer");
        });
    }
}

/// What the kernels left.
struct Drafted {
    tokens: Vec<u32>,
    draft: Vec<u32>,
    ancestors: Vec<u32>,
    live: u32,
}

impl Drafted {
    fn assert_equal(&self, tree: &DraftTree, reliabilities: &Reliabilities, width: u32, name: &str) {
        let nodes = tree.nodes.len();
        assert_eq!(self.draft[0] as usize, nodes, "{name}: nodes");
        assert_eq!(self.draft[1], if nodes > 1 { tree.match_len } else { 0 }, "{name}: match length");
        assert_eq!(self.live, width.min(nodes as u32), "{name}: live nodes");
        let expected = [2, 4, 8, 16, 32].map(|width| tree.expected(width));
        assert_eq!(self.draft[EXPECTED_WORD as usize..][..5], expected, "{name}: expected nodes");
        let learned: Vec<u32> = reliabilities.0.iter().flatten().copied().collect();
        assert_eq!(
            self.draft[RELIABILITY_WORD as usize..][..learned.len()],
            learned,
            "{name}: reliabilities"
        );
        for (n, node) in tree.nodes.iter().enumerate() {
            let record = &self.draft[(NODES_WORD + n as u32 * NODE_WORDS) as usize..][..7];
            let word =
                |bytes: &[u8; 8], half: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[4 * half + i]));
            let wanted = [
                node.parent,
                node.probability,
                word(&node.through, 0),
                word(&node.through, 1),
                word(&node.onward, 0),
                word(&node.onward, 1),
                u32::from(node.mixed),
            ];
            assert_eq!(record, wanted, "{name}: node {n}, {node:?}");
            assert_eq!(self.tokens[n], node.token, "{name}: token of node {n}");
            let mut path = vec![n as u32];
            while path[0] != 0 {
                path.insert(0, tree.nodes[path[0] as usize].parent);
            }
            let row = &self.ancestors[n * ANCESTOR_STRIDE as usize..][..ANCESTOR_STRIDE as usize];
            assert_eq!(row[..path.len()], path, "{name}: ancestors of node {n}");
            assert_eq!(row[32], path.len() as u32 - 1, "{name}: depth of node {n}");
        }
    }
}

/// A text of `len` tokens: repeats of phrases over a small vocabulary, as natural text has them.
fn phrases(noise: &mut Noise, vocabulary: u32, len: usize) -> Vec<u32> {
    let mut text: Vec<u32> = Vec::new();
    while text.len() < len {
        let pick = noise.bits();
        if text.len() > 16 && !pick.is_multiple_of(3) {
            let start = noise.bits() as usize % (text.len() - 8);
            let stretch = 2 + noise.bits() as usize % 12;
            let end = (start + stretch).min(text.len());
            text.extend_from_within(start..end);
        } else {
            text.push(noise.bits() % vocabulary);
        }
    }
    text.truncate(len);
    text
}

/// Words of a natural text as ids, in order of appearance.
fn natural(text: &str) -> Vec<u32> {
    let mut known: Vec<&str> = Vec::new();
    let words = text.split_inclusive(|c: char| !c.is_alphanumeric());
    words
        .map(|word| match known.iter().position(|k| *k == word) {
            Some(id) => id as u32,
            None => {
                known.push(word);
                known.len() as u32 - 1
            }
        })
        .collect()
}

/// Decodes `text` from `start` on as if a model said it, drafting at every step.
fn follow(bench: &mut Bench, memory: &[u32], text: &[u32], start: usize, steps: usize, name: &str) -> usize {
    let mut history = History::new(memory);
    history.extend(&text[..start]);
    let mut rest = &text[start..];
    let mut emitted = 0;
    for step in 0..steps {
        let width = WIDTHS[step % WIDTHS.len()];
        let tree = bench.step(&history, width, 32_768, &format!("{name}, step {step}"));
        let visits = tree.visits(width, rest);
        bench.learn(&tree, &visits);
        let (now, later) = rest.split_at(visits.len());
        history.extend(now);
        emitted += now.len();
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    emitted
}

#[test]
fn trees_of_random_text_are_equal() {
    let mut noise = Noise::new(11);
    let mut bench = Bench::new();
    for (vocabulary, len) in [(2, 40), (3, 1500), (50, 2100), (5000, 3000), (1, 1200)] {
        let text = phrases(&mut noise, vocabulary, len + 200);
        follow(&mut bench, &[], &text, len, 12, &format!("{vocabulary} ids, {len} tokens"));
    }
    // A context of one token has no match.
    follow(&mut bench, &[], &[7, 8, 9, 7, 8, 9, 7, 8, 9, 7], 1, 8, "from nothing");
}

#[test]
fn trees_of_natural_text_are_equal_and_worth_something() {
    let text = natural(include_str!("../../LICENSE-APACHE"));
    let mut bench = Bench::new();
    let steps = 24;
    let emitted = follow(&mut bench, &[], &text, 900, steps, "licence");
    assert!(emitted > steps, "{emitted} tokens in {steps} steps");
    // With the text itself in memory, nearly every draft is accepted as far as it goes.
    let mut memory = text.clone();
    memory.push(SEPARATOR);
    let remembered = follow(&mut bench, &memory, &text, 900, steps, "licence, remembered");
    assert!(remembered > 2 * emitted, "{remembered} tokens against {emitted}");
}

#[test]
fn memory_of_any_length_is_searched() {
    let mut noise = Noise::new(5);
    let mut bench = Bench::new();
    for len in [1, 2, 1023, 1024, 5000, MEMORY_TOKENS as usize - 1, MEMORY_TOKENS as usize + 700] {
        let mut memory = phrases(&mut noise, 40, len);
        for at in (17..len).step_by(97) {
            memory[at] = SEPARATOR;
        }
        let text = phrases(&mut noise, 40, 130);
        follow(&mut bench, &memory, &text, 60, 6, &format!("{len} tokens of memory"));
    }
}

#[test]
fn no_node_lies_beyond_the_context() {
    let mut bench = Bench::new();
    let text: Vec<u32> = (0..64).map(|i| i % 5).collect();
    let mut history = History::new(&[]);
    history.extend(&text);
    for room in 0..=9u32 {
        let tree = bench.step(&history, 32, 64 + room, &format!("room for {room}"));
        let deepest = tree.nodes.iter().map(|n| n.depth).max();
        assert_eq!(deepest, Some(room.min(DEPTH_MAX)), "room for {room}");
    }
}

#[test]
fn every_prefix_of_a_tree_is_a_tree() {
    let mut noise = Noise::new(3);
    let mut bench = Bench::new();
    for case in 0..12 {
        let text = phrases(&mut noise, 30, 600 + 50 * case);
        let mut history = History::new(&[]);
        history.extend(&text);
        let tree = bench.step(&history, 32, 4096, &format!("case {case}"));
        let falls = tree.nodes.windows(2).all(|pair| pair[0].probability >= pair[1].probability);
        assert!(falls, "probabilities fall");
        for (n, node) in tree.nodes.iter().enumerate().skip(1) {
            assert!((node.parent as usize) < n, "node {n} comes after its parent");
            let siblings =
                tree.nodes[1..n].iter().filter(|s| s.parent == node.parent && s.token == node.token);
            assert_eq!(siblings.count(), 0, "node {n} is drafted once");
        }
    }
}
