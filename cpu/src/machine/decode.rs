//! Steps, windows and prompts: drafts, the walk of accepted nodes, the reasons to end. The rules are those of
//! the accept kernel (docs/semantics.md, "Control block").

use std::sync::atomic::Ordering;

use fanlight_compute::attend::Sight;
use fanlight_compute::choice::{Choice, fold_hash};
use fanlight_compute::tiles::Tiles;
use fanlight_drafter::{DraftTree, History, Reliabilities, Visit, draft, find_matches};
use fanlight_messages::control::{ControlBlock, EndReason, StepRecord};
use fanlight_messages::device::WindowReport;
use fanlight_messages::draft::{DEPTH_MAX, Width};
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::sampling::Sampling;

use super::{Batch, Machine};

/// What a request starts with: [`RequestSetup`](fanlight_messages::device::RequestSetup), ready to travel to
/// the machine's thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Setup {
    pub(crate) end_ids: Vec<u32>,
    pub(crate) context_len: u32,
    pub(crate) token_limit: u32,
    pub(crate) hash_logits: bool,
    pub(crate) hash: u32,
    pub(crate) memory: Vec<u32>,
    pub(crate) sampling: Sampling,
    pub(crate) generated_from: u32,
}

/// The request under way, and what outlives it: the context's tokens and what drafts were worth.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) setup: Setup,
    control: ControlBlock,
    /// Session memory and the tokens of the context.
    pub(super) history: History,
    /// The last token emitted: the root of the next step.
    root: u32,
    reliabilities: Reliabilities,
    context_len: u32,
    /// What the next report tells.
    tokens: Vec<u32>,
    hashes: Vec<u32>,
    steps: Vec<StepRecord>,
}

/// Widths whose expected accepted nodes a step record tells.
const EXPECTED_WIDTHS: [u32; 5] = [2, 4, 8, 16, 32];

/// What a row's choice depends on besides its logits.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// Of the row's own token.
    pub(super) position: usize,
    /// Tokens of a draft on the way to it, its own last; the context ends before them.
    pub(super) path: Vec<u32>,
}

/// What kind of pass is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Prompt,
    Plain,
    Tree,
}

impl Request {
    pub(super) fn new(plan: &GpuPlan) -> Self {
        Self {
            setup: Setup::default(),
            control: ControlBlock::default(),
            history: History::new(&[]),
            root: 0,
            reliabilities: Reliabilities::default(),
            context_len: plan.request.context_len,
            tokens: Vec::new(),
            hashes: Vec::new(),
            steps: Vec::new(),
        }
    }
}

impl Machine {
    /// Starts a request. The cache keeps its rows.
    pub(crate) fn begin(&mut self, setup: Setup) {
        let request = &mut self.request;
        request.control = ControlBlock {
            context: setup.context_len.min(request.context_len),
            tokens_left: setup.token_limit,
            hash: setup.hash,
            ..ControlBlock::default()
        };
        request.history.remember(&setup.memory);
        request.tokens.clear();
        request.hashes.clear();
        request.steps.clear();
        request.setup = setup;
        self.faults.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Evaluates prompt tokens at positions `base..`; with `choose` the first token of the reply is chosen.
    pub(crate) fn prefill(&mut self, base: u32, tokens: Vec<u32>, choose: bool) -> WindowReport {
        let first = base as usize;
        self.request.history.rewind(base);
        self.request.history.extend(&tokens);
        let positions = first..first + tokens.len();
        let sight = |position: usize| Sight { cached: position + 1, ..Sight::default() };
        let batch = Batch {
            tokens,
            sights: positions.clone().map(sight).collect(),
            cache_rows: positions.clone().collect(),
        };
        self.request.control.committed = base;
        self.request.control.live = batch.tokens.len() as u32;
        self.forward(&batch);
        if choose {
            self.head_of_last(&batch);
            let last = batch.tokens.len() - 1;
            let view = View { position: positions.end - 1, path: Vec::new() };
            let choice = self.choose(Tiles::new(1), &[view])[0];
            self.commit(Form::Prompt, None, &|row| (row == last).then_some(choice), last);
        }
        self.report()
    }

    /// Logits of every row of a prompt batch, `[token][id]`: for measuring models, not for decoding.
    pub(crate) fn score(&mut self, base: u32, tokens: Vec<u32>) -> Vec<f32> {
        let rows = tokens.len();
        let positions = base as usize..base as usize + rows;
        let sight = |position: usize| Sight { cached: position + 1, ..Sight::default() };
        let batch =
            Batch { tokens, sights: positions.clone().map(sight).collect(), cache_rows: positions.collect() };
        self.forward(&batch);
        self.head_of_all(&batch);
        (0..rows).flat_map(|row| self.logits_row(batch.tiles(), row)).collect()
    }

    /// Runs a window of steps; what follows an end does nothing.
    pub(crate) fn window(&mut self, steps: u32, width: Width) -> WindowReport {
        for _ in 0..steps {
            if self.request.control.end == 0 {
                match width {
                    Width::Off => self.plain_step(),
                    Width::Nodes(nodes) => self.tree_step(nodes),
                }
            }
        }
        self.report()
    }

    fn plain_step(&mut self) {
        let position = self.request.control.committed as usize;
        let batch = Batch {
            tokens: vec![self.request.root],
            sights: vec![Sight { cached: position + 1, ..Sight::default() }],
            cache_rows: vec![position],
        };
        self.forward(&batch);
        self.head_of_all(&batch);
        let view = View { position, path: Vec::new() };
        let choice = self.choose(batch.tiles(), &[view])[0];
        self.commit(Form::Plain, None, &|_| Some(choice), 0);
    }

    fn tree_step(&mut self, nodes: u32) {
        let request = &mut self.request;
        let root = request.control.committed as usize;
        // The last position is the context's: nothing is drafted beyond it.
        let room = request.control.context.saturating_sub(request.control.committed + 1);
        let matches = find_matches(&request.history);
        let tree = draft(&request.history, &matches, &request.reliabilities, room.min(DEPTH_MAX));
        let nodes_at = self.caches.first().map_or(0, |cache| cache.nodes_at);
        let mut batch = Batch { tokens: Vec::new(), sights: Vec::new(), cache_rows: Vec::new() };
        for (index, node) in tree.width(nodes).iter().enumerate() {
            let mut sight = Sight { cached: root + 1, ..Sight::default() };
            if index > 0 {
                sight = batch.sights[node.parent as usize];
                sight.path[sight.depth] = index as u8;
                sight.depth += 1;
            }
            batch.tokens.push(node.token);
            batch.sights.push(sight);
            batch.cache_rows.push(if index == 0 { root } else { nodes_at + index });
        }
        self.request.control.live = batch.tokens.len() as u32;
        self.forward(&batch);
        self.head_of_all(&batch);
        let views: Vec<View> = batch
            .sights
            .iter()
            .map(|sight| View { position: sight.position(), path: path_tokens(&batch, sight) })
            .collect();
        let choices = self.choose(batch.tiles(), &views);
        let path = self.commit(Form::Tree, Some((&tree, nodes)), &|row| choices.get(row).copied(), 0);
        self.learn(&tree, &path, &choices);
        // Rows of accepted nodes move from the tree's region to their positions.
        let accepted: Vec<(usize, usize)> =
            path.iter().enumerate().skip(1).map(|(depth, node)| (*node, root + depth)).collect();
        if !accepted.is_empty() {
            self.caches.iter_mut().for_each(|cache| cache.keep(&accepted));
        }
    }

    /// What the walk saw makes orders more or less reliable.
    fn learn(&mut self, tree: &DraftTree, path: &[usize], choices: &[Choice]) {
        if self.request.control.end != EndReason::Poisoned.word() {
            let visits: Vec<Visit> =
                path.iter().map(|node| Visit { node: *node, choice: choices[*node].id }).collect();
            self.request.reliabilities.learn(tree, &visits);
        }
    }

    /// Commits what the rows choose, from `first` on; returns the nodes that were visited.
    fn commit(
        &mut self,
        form: Form,
        drafted: Option<(&DraftTree, u32)>,
        choice_of: &dyn Fn(usize) -> Option<Choice>,
        first: usize,
    ) -> Vec<usize> {
        let raised: Vec<u32> = self.faults.iter().map(|word| word.swap(0, Ordering::Relaxed)).collect();
        let is_broken = |row: usize| match form {
            Form::Prompt => raised.iter().any(|word| *word != 0),
            Form::Plain | Form::Tree => raised[row / 32] >> (row % 32) & 1 == 1,
        };
        let nodes = drafted.map_or(&[][..], |(tree, width)| tree.width(width));
        let request = &mut self.request;
        let control = &mut request.control;
        let live = control.live;
        if form == Form::Prompt {
            control.committed += live - 1;
        }
        let (mut node, mut visited, mut emitted) = (first, Vec::new(), 0);
        control.end = loop {
            let Some(choice) = choice_of(node) else { break 0 };
            control.committed += 1;
            visited.push(node);
            if is_broken(node) || !choice.is_finite {
                control.poison = 1;
                break EndReason::Poisoned.word();
            }
            control.hash = fold_hash(control.hash, choice.hash);
            if request.setup.end_ids.contains(&choice.id) {
                break EndReason::EndToken.word();
            }
            request.tokens.push(choice.id);
            request.hashes.push(control.hash);
            request.root = choice.id;
            emitted += 1;
            control.ring_head += 1;
            control.tokens_left -= 1;
            if control.tokens_left == 0 {
                break EndReason::TokenLimit.word();
            }
            if control.committed >= control.context {
                break EndReason::ContextFull.word();
            }
            request.history.extend(&[choice.id]);
            let is_next = |k: &usize| nodes[*k].parent as usize == node && nodes[*k].token == choice.id;
            match (1..nodes.len()).find(is_next) {
                Some(child) => node = child,
                None => break 0,
            }
        };
        if form != Form::Prompt {
            let accepted = visited.len() as u32 - 1;
            let record = StepRecord { live, emitted, accepted, ..StepRecord::default() };
            request.steps.push(match drafted {
                None => record,
                Some((tree, _)) => StepRecord {
                    match_len: tree.match_len,
                    drafted: tree.nodes.len() as u32,
                    expected: EXPECTED_WIDTHS.map(|width| (tree.expected(width) >> 10).min(1023)),
                    ..record
                },
            });
            control.steps += 1;
        }
        control.live = 1;
        visited
    }

    fn report(&mut self) -> WindowReport {
        let request = &mut self.request;
        WindowReport {
            control: request.control,
            tokens: std::mem::take(&mut request.tokens),
            hashes: std::mem::take(&mut request.hashes),
            steps: std::mem::take(&mut request.steps),
            dispatches: 0,
        }
    }
}

/// The tokens on a node's path below the root, its own last.
fn path_tokens(batch: &Batch, sight: &Sight) -> Vec<u32> {
    sight.path[..sight.depth].iter().map(|node| batch.tokens[usize::from(*node)]).collect()
}
