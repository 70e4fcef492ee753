//! Speculation never changes what is decoded: equal ids, logits hash and end for every width, window, draft,
//! memory and way to end.

use std::rc::Rc;

use fanlight_gpu::{AdapterPreference, Device};
use fanlight_messages::TensorType;
use fanlight_messages::backend::BackendModel;
use fanlight_messages::device::RequestSetup;
use fanlight_messages::draft::{WIDTHS, Width, WidthPolicy};
use fanlight_messages::plan::KvFormat;
use fanlight_messages::protocol::controller::{ConfigurePlan, ObserveWindow};
use fanlight_scheduler::Controller;
use fanlight_tests::rig::{GreedyRun, Rig, RigOptions, Way, in_memory, memory_right_for};
use fanlight_tests::synth::{Architecture, tiny};
use futures::executor::block_on;

fn load(architecture: Architecture, tensor_type: TensorType, kv_format: KvFormat) -> Rig {
    let device = block_on(Device::open(AdapterPreference::HighPerformance))
        .expect("a GPU adapter is required by this test");
    let bytes = tiny(architecture, tensor_type, 11).build().unwrap().to_bytes();
    Rig::load(&device, in_memory(bytes), RigOptions { kv_format, ..RigOptions::default() }).unwrap()
}

fn setup(token_limit: u32) -> RequestSetup {
    RequestSetup { context_len: 512, token_limit, hash_logits: true, ..RequestSetup::default() }
}

fn prompt(len: u32) -> Vec<u32> {
    (0..len).map(|i| (i * 29 + 3) % 250).collect()
}

fn accepted(run: &GreedyRun) -> u32 {
    run.steps.iter().map(|step| step.accepted).sum()
}

/// One way of drafting.
#[derive(Debug, Clone, Copy)]
struct Speculation {
    nodes: u32,
    steps: u32,
    /// True tokens that the memory continues with, `None` for no memory.
    right: Option<usize>,
}

/// The run of each speculation is that of plain decoding. Returns the drafted nodes that each accepted.
fn check(rig: &mut Rig, prompt: &[u32], tokens: u32, all: &[Speculation]) -> Vec<u32> {
    let expected = rig.greedy(prompt, Way::default(), &setup(tokens)).unwrap();
    assert_eq!(expected.ids.len(), tokens as usize);
    assert_eq!(expected.steps.len(), tokens as usize - 1, "a plain step emits one token");
    let mut sums = Vec::new();
    for speculation in all {
        let Speculation { nodes, steps, right } = *speculation;
        let memory = right.map_or_else(Rc::default, |right| memory_right_for(prompt, &expected.ids, right));
        let way = Way { steps, width: Width::Nodes(nodes), ..Way::default() };
        let run = rig.greedy(prompt, way, &RequestSetup { memory, ..setup(tokens) }).unwrap();
        assert_eq!(run.bits(), expected.bits(), "{speculation:?}");
        // With the prompt in the cache, as a conversation that goes on has it.
        let reused = Way { base: prompt.len() as u32 - 1, ..way };
        let memory = right.map_or_else(Rc::default, |right| memory_right_for(prompt, &expected.ids, right));
        let again = rig.greedy(prompt, reused, &RequestSetup { memory, ..setup(tokens) }).unwrap();
        assert_eq!(again.bits(), expected.bits(), "{speculation:?}, prefix reused");
        assert!(run.steps.iter().all(|step| step.live <= nodes && step.emitted <= step.accepted + 1));
        sums.push(accepted(&run));
    }
    sums
}

#[test]
fn every_width_window_and_draft_gives_the_same_bits() {
    let mut rig = load(Architecture::Llama, TensorType::Q4_1, KvFormat::F16);
    let mut all = Vec::new();
    for right in [None, Some(usize::MAX), Some(0), Some(1), Some(5)] {
        for nodes in WIDTHS {
            all.extend([1, 2, 4].map(|steps| Speculation { nodes, steps, right }));
        }
    }
    let sums = check(&mut rig, &prompt(70), 16, &all);
    // How much is accepted depends on what earlier runs taught the drafter; which memory is worth more, not.
    let of = |nodes, right| -> u32 {
        let runs = all.iter().zip(&sums).filter(|(s, _)| s.nodes == nodes && s.right == right);
        runs.map(|(_, accepted)| accepted).sum()
    };
    for nodes in WIDTHS {
        let (right, wrong) = (of(nodes, Some(usize::MAX)), of(nodes, Some(0)));
        println!("width {nodes}: accepted {right} with a right memory, {wrong} with a wrong one");
        if nodes == 1 {
            assert_eq!((right, wrong), (0, 0), "a tree of its root accepts nothing");
        } else {
            assert!(right > wrong, "width {nodes}: right accepts {right}, wrong {wrong}");
        }
    }
}

#[test]
fn other_architectures_and_caches_speculate_without_loss_too() {
    let cover = [
        Speculation { nodes: 2, steps: 4, right: Some(usize::MAX) },
        Speculation { nodes: 8, steps: 1, right: Some(2) },
        Speculation { nodes: 8, steps: 2, right: None },
        Speculation { nodes: 32, steps: 4, right: Some(0) },
        Speculation { nodes: 32, steps: 1, right: Some(usize::MAX) },
    ];
    for (architecture, tensor_type, kv_format) in [
        (Architecture::Gemma3, TensorType::Q6K, KvFormat::F16),
        (Architecture::Qwen3, TensorType::Q8_0, KvFormat::F32),
        (Architecture::Qwen2, TensorType::F16, KvFormat::F16),
    ] {
        let mut rig = load(architecture, tensor_type, kv_format);
        check(&mut rig, &prompt(70), 14, &cover);
    }
}

/// Every end, at every place in a tree: limits, the context, an end token; and the cache is whole afterwards.
#[test]
fn a_reply_ends_at_the_same_token_wherever_it_falls_in_a_tree() {
    let mut rig = load(Architecture::Qwen2, TensorType::Q4_0, KvFormat::F16);
    let prompt = prompt(20);
    let free = rig.greedy(&prompt, Way::default(), &setup(40)).unwrap();
    let memory = memory_right_for(&prompt, &free.ids, usize::MAX);
    for at in [1, 2, 3, 6, 8, 9, 10, 13, 18u32] {
        let limit = RequestSetup { memory: memory.clone(), ..setup(at) };
        let full = RequestSetup { context_len: 20 + at, token_limit: 64, ..limit.clone() };
        let ended = RequestSetup { end_ids: vec![free.ids[at as usize]], token_limit: 64, ..limit.clone() };
        for request in [limit, full, ended] {
            let expected = rig.greedy(&prompt, Way::default(), &request).unwrap();
            // The conversation goes on behind the reply.
            let mut longer = prompt.clone();
            longer.extend(&expected.ids);
            let known = longer.len() as u32 - 1;
            let fresh = rig.greedy(&longer, Way::default(), &setup(3)).unwrap();
            for (nodes, steps) in [(8, 1), (32, 2), (4, 4)] {
                let way = Way { steps, width: Width::Nodes(nodes), ..Way::default() };
                let run = rig.greedy(&prompt, way, &request).unwrap();
                assert_eq!(run.bits(), expected.bits(), "width {nodes}, windows of {steps}, {request:?}");
                // What was accepted last has reached the cache.
                let reused = rig.greedy(&longer, Way { base: known, ..Way::default() }, &setup(3)).unwrap();
                assert_eq!(
                    reused.bits(),
                    fresh.bits(),
                    "after width {nodes}, windows of {steps}, {request:?}"
                );
            }
        }
    }
}

/// Widths change from window to window, and plain windows come between.
#[test]
fn widths_may_change_between_windows() {
    let mut rig = load(Architecture::Llama, TensorType::Q5_0, KvFormat::F16);
    let prompt = prompt(40);
    let expected = rig.greedy(&prompt, Way::default(), &setup(80)).unwrap();
    let memory = memory_right_for(&prompt, &expected.ids, 3);
    let plans = [
        vec![Width::Nodes(8), Width::Off],
        vec![Width::Nodes(1), Width::Nodes(32), Width::Off, Width::Off, Width::Nodes(2)],
        vec![Width::Off, Width::Nodes(16), Width::Nodes(4), Width::Nodes(16), Width::Nodes(1)],
    ];
    for plan in plans {
        for steps in [1, 2, 4] {
            for width in &plan {
                rig.prepare(*width).unwrap();
            }
            rig.runner.begin(&RequestSetup { memory: memory.clone(), ..setup(80) }).unwrap();
            let first = block_on(rig.runner.prefill(0, &prompt, true, 1).unwrap()).unwrap();
            let (mut ids, mut hashes, mut last) = (first.tokens, first.hashes, first.control);
            let mut in_flight = std::collections::VecDeque::new();
            let mut widths = plan.iter().cycle();
            while last.end == 0 || !in_flight.is_empty() {
                while last.end == 0 && in_flight.len() < 2 {
                    let width = *widths.next().unwrap();
                    in_flight.push_back(rig.runner.window(steps, width, 1).unwrap());
                }
                let report = block_on(in_flight.pop_front().unwrap()).unwrap();
                ids.extend(report.tokens);
                hashes.extend(report.hashes);
                last = report.control;
            }
            assert_eq!(
                (&ids[..], &hashes[..], last.hash, last.end),
                expected.bits(),
                "{plan:?}, windows of {steps}"
            );
        }
    }
}

/// Microseconds of a step as the controller is told, so that it moves between plain and wide steps.
fn paper_us(width: Width) -> u64 {
    10_000 + if width == Width::Off { 0 } else { 150 + 400 * u64::from(width.rows() - 1) }
}

/// The controller chooses width and length of every window; half of the memory leads astray.
#[test]
fn what_the_controller_plans_gives_the_same_bits() {
    let mut rig = load(Architecture::Llama, TensorType::Q8_0, KvFormat::F16);
    let prompt = prompt(40);
    let tokens = 160;
    let expected = rig.greedy(&prompt, Way::default(), &setup(tokens)).unwrap();
    let right = memory_right_for(&prompt, &expected.ids[..80], usize::MAX);
    let wrong = memory_right_for(&prompt, &expected.ids, 0);
    let policy = WidthPolicy::Auto { max: 32 };
    for width in policy.widths() {
        rig.prepare(width).unwrap();
    }
    for memory in [[&wrong[..], &right[..]].concat(), wrong.to_vec(), Vec::new()] {
        let mut controller = Controller::default();
        let configure =
            ConfigurePlan { window_steps: None, width: policy, frame_budget_us: None, streams: false };
        let mut plan = controller.configure(&configure);
        rig.runner.begin(&RequestSetup { memory: memory.into(), ..setup(tokens) }).unwrap();
        let first = block_on(rig.runner.prefill(0, &prompt, true, 1).unwrap()).unwrap();
        let (mut ids, mut hashes, mut last) = (first.tokens, first.hashes, first.control);
        let mut in_flight = std::collections::VecDeque::new();
        let mut widths = Vec::new();
        while last.end == 0 || !in_flight.is_empty() {
            while last.end == 0 && in_flight.len() < 2 {
                widths.push(plan.width.rows());
                in_flight.push_back((plan, rig.runner.window(plan.steps, plan.width, 1).unwrap()));
            }
            let (done, report) = in_flight.pop_front().unwrap();
            let report = block_on(report).unwrap();
            let (width, steps, records) = (done.width, done.steps, report.steps);
            let elapsed_us = Some(u64::from(steps) * paper_us(width));
            plan = controller.observe(&ObserveWindow { width, steps, elapsed_us, records });
            ids.extend(report.tokens);
            hashes.extend(report.hashes);
            last = report.control;
        }
        assert_eq!((&ids[..], &hashes[..], last.hash, last.end), expected.bits(), "{widths:?}");
        assert!(widths.iter().any(|rows| *rows > 1), "it never speculated: {widths:?}");
    }
}

/// Trees that reach over the edge of an attention chunk, at every depth.
#[test]
fn trees_across_the_edge_of_a_chunk_give_the_same_bits() {
    let mut rig = load(Architecture::Llama, TensorType::Q4_0, KvFormat::F16);
    for len in 54..=64 {
        let prompt = prompt(len);
        let expected = rig.greedy(&prompt, Way::default(), &setup(10)).unwrap();
        let memory = memory_right_for(&prompt, &expected.ids, usize::MAX);
        for nodes in [16, 32] {
            let way = Way { width: Width::Nodes(nodes), ..Way::default() };
            let run =
                rig.greedy(&prompt, way, &RequestSetup { memory: memory.clone(), ..setup(10) }).unwrap();
            assert_eq!(run.bits(), expected.bits(), "a prompt of {len}, width {nodes}: {:?}", run.steps);
        }
    }
}
