//! Telemetry: it delays nothing, it is bounded, and what it says of time and bytes adds up.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use fanlight_actors::kit::{Clock, World};
use fanlight_actors::telemetry::TelemetryLink;
use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::limits::{SAMPLES, TRACE_SAMPLES};
use fanlight_messages::protocol::engine::Generate;
use fanlight_messages::protocol::telemetry::*;
use futures::future::join;

use crate::device::{settle, yield_now};
use crate::rig::{Rig, collect, request, with_engine};

const PROMPT: [u32; 5] = [5, 6, 7, 8, 9];
/// Microseconds between two snapshots of a panel.
const SAMPLED_US: u64 = 100_000;

fn pieces(samples: &[(u64, RecordSample)]) -> Vec<Piece> {
    let piece = |(_, sample): &(u64, RecordSample)| match sample {
        RecordSample::Piece(piece) => Some(*piece),
        _ => None,
    };
    samples.iter().filter_map(piece).collect()
}

/// Replies of all kinds: chosen widths with measurements between them, fixed ones, frames that are left to
/// the page.
async fn replies(rig: &Rig) {
    rig.device.state.borrow_mut().is_gpu = true;
    rig.load().await.unwrap();
    for (salt, frame_budget_ms) in [(0, None), (1, Some(8)), (2, None), (3, Some(2))] {
        let ids: Vec<u32> = (0..40).map(|position| (position * 7 + salt * 13) % 256).collect();
        for width in [WidthPolicy::Auto { max: 32 }, WidthPolicy::Fixed(Width::Off)] {
            rig.check_reply(Generate { width, frame_budget_ms, ..request(&ids, 150) }).await;
            // What is measured between requests is over: else it matters at which turn the next one comes.
            let mut submissions = 0;
            while std::mem::replace(&mut submissions, rig.device.state.borrow().submissions) != submissions {
                settle().await;
            }
        }
    }
}

/// Time passes in which nothing happens.
fn pass_time(rig: &Rig, us: u64) {
    rig.device.clock_us.set(rig.device.now_us() + us);
}

/// Asserts that the device did the same at the same time.
fn assert_same(alone: &[Piece], watched: &[Piece]) {
    let first = alone.iter().zip(watched).position(|(a, b)| a != b);
    let differing = first.map(|at| (at, alone[at], watched[at]));
    assert_eq!((differing, alone.len()), (None, watched.len()));
}

/// Takes snapshots, `turns` of the world or [`SAMPLED_US`] apart, until `is_over`.
async fn poll(
    rig: &Rig,
    turns: Option<u32>,
    is_over: &Cell<bool>,
    kept: &RefCell<Vec<(u64, RecordSample)>>,
) -> u32 {
    let (mut after, mut due_us, mut polls) = (0, 0, 0);
    while !is_over.get() {
        if turns.is_some() || rig.device.now_us() >= due_us {
            let taken = rig.handle.snapshot(after).await.unwrap().kept;
            assert_eq!((taken.lost_samples, taken.dropped_samples), (0, 0));
            (after, due_us, polls) = (taken.next, rig.device.now_us() + SAMPLED_US, polls + 1);
            kept.borrow_mut().extend(taken.samples);
        }
        for _ in 0..turns.unwrap_or(1) {
            yield_now().await;
        }
    }
    polls
}

#[test]
fn windows_complete_at_the_same_time_whether_or_not_somebody_looks() {
    let observed = |turns: Option<Option<u32>>| {
        let seen = Rc::new(RefCell::new((Vec::new(), 0, 0)));
        let result = seen.clone();
        with_engine(5, |rig, _| async move {
            let (is_over, kept) = (Cell::new(false), RefCell::new(Vec::new()));
            let work = async {
                replies(&rig).await;
                is_over.set(true);
            };
            let polls = match turns {
                Some(turns) => join(work, poll(&rig, turns, &is_over, &kept)).await.1,
                None => {
                    work.await;
                    0
                }
            };
            let after = kept.borrow().len() as u64;
            let rest = rig.handle.snapshot(after).await.unwrap().kept.samples;
            kept.borrow_mut().extend(rest);
            *result.borrow_mut() = (pieces(&kept.borrow()), rig.device.now_us(), polls);
        });
        seen.take()
    };
    let (alone, alone_us, _) = observed(None);
    let (watched, watched_us, polls) = observed(Some(None));
    assert!(alone.len() > 300 && alone.len() < TRACE_SAMPLES, "{}", alone.len());
    assert!(polls > 10, "{polls} snapshots in {watched_us} us");
    assert_same(&alone, &watched);
    assert_eq!(alone_us, watched_us);
    // Nor when somebody asks far more often than a panel may.
    let (pestered, pestered_us, polls) = observed(Some(Some(1)));
    assert!(polls > 1000, "{polls}");
    assert_same(&alone, &pestered);
    assert_eq!(alone_us, pestered_us);
}

#[test]
fn pieces_and_gaps_fill_the_time() {
    with_engine(6, |rig, _| async move {
        rig.check_reply(request(&PROMPT, 20)).await;
        pass_time(&rig, 5_000);
        let framed = Generate { frame_budget_ms: Some(4), ..request(&PROMPT, 40) };
        rig.check_reply(Generate { reuse_prefix: false, ..framed }).await;
        // A width whose pipelines are new, and a reader that pauses.
        let width = WidthPolicy::Fixed(Width::Nodes(8));
        let mut generation = rig.handle.generate(Generate { width, ..request(&PROMPT, 90) }).await.unwrap();
        settle().await;
        pass_time(&rig, 70_000);
        collect(&mut generation).await;
        let snapshot = rig.handle.snapshot(0).await.unwrap();
        let pieces = pieces(&snapshot.kept.samples);
        let mut gaps = Gap::default();
        for pair in pieces.windows(2) {
            let between_us = pair[1].began_us - pair[0].completed_us;
            assert_eq!(between_us, pair[1].gap.total_us(), "{pair:?}");
            gaps.merge(&pair[1].gap);
        }
        assert!(gaps.idle_us >= 5_000 && gaps.consumer_us >= 70_000, "{gaps:?}");
        assert_eq!(gaps.compile_us, 3 * 700, "three pipelines");
        let window_us: u64 = pieces.iter().map(Piece::elapsed_us).sum();
        assert!(gaps.rest_us > 2 * 20_000, "four of 16.7 milliseconds are used: {gaps:?}");
        let totals = snapshot.kept.totals;
        assert_eq!((totals.busy_us, totals.replies, totals.tokens), (window_us, 3, 150));
        let first = pieces[0].gap;
        assert_eq!(totals.gaps.total_us(), gaps.total_us() + first.total_us());
        let phases = snapshot.kept.phases.unwrap();
        assert_eq!((phases.compile_us, phases.prompt_tokens, phases.reused_tokens), (3 * 700, 5, 4));
        assert_eq!(phases.total_us(), phases.compile_us + phases.prefill_us);
    });
}

#[test]
fn the_expected_rate_is_that_of_the_plan() {
    with_engine(7, |rig, _| async move {
        rig.check_reply(request(&PROMPT, 60)).await;
        rig.check_reply(request(&PROMPT, 60)).await;
        let pieces = pieces(&rig.handle.snapshot(0).await.unwrap().kept.samples);
        let windows: Vec<&Piece> = pieces.iter().filter(|piece| piece.kind == PieceKind::Window).collect();
        // A plain step takes a millisecond.
        let last = windows.last().unwrap();
        assert_eq!((last.expected_tokens_per_s, last.width), (1000, Width::Off));
        assert!(windows.iter().all(|piece| piece.tokens == piece.live_steps));
    });
}

#[test]
fn the_snapshot_says_what_is_loaded_and_what_failed() {
    with_engine(8, |rig, _| async move {
        let loaded = rig.load().await.unwrap();
        let snapshot = rig.handle.snapshot(0).await.unwrap();
        let model = snapshot.facts.model.unwrap();
        assert_eq!(model.ledger.iter().sum::<u64>(), loaded.plan.total_bytes());
        assert_eq!(model.resident.count, loaded.plan.pages.len() as u64);
        assert_eq!((model.ledger[0], model.streaming.count), (model.resident.bytes, 0));
        assert!(model.map.iter().all(|milli| *milli == 1000) && !model.map.is_empty());
        assert_eq!(snapshot.facts.adapter.unwrap().name, "paper");
        let names: Vec<&str> = snapshot.actors.iter().map(|actor| actor.name).collect();
        assert_eq!(names, ["engine", "pager", "submitter", "controller", "memory", "telemetry"]);
        assert!(snapshot.actors.iter().all(|actor| actor.last_error.is_empty()));
        rig.handle.generate(request(&[1, 100_000], 5)).await.err().unwrap();
        rig.check_reply(request(&PROMPT, 5)).await;
        let actors = rig.handle.snapshot(0).await.unwrap().actors;
        assert!(actors[0].last_error.contains("100000"), "{}", actors[0].last_error);
        assert!(actors[2].inbox.depth_max > 0 && actors[2].inbox.depth == 0);
        rig.handle.unload().await.unwrap();
        assert_eq!(rig.handle.snapshot(0).await.unwrap().facts.model, None);
    });
}

#[test]
fn a_hundred_thousand_samples_take_no_room_and_what_finds_no_place_is_counted() {
    World::run(|world, _| async move {
        let link = TelemetryLink::start(&world, Clock::simulated(Rc::default()));
        let upload = RecordSample::Upload { bytes: 2, elapsed_us: 1 };
        // Nobody reads while they come.
        (0..100_000).for_each(|_| link.record(upload));
        let taken = link.addr().ask(TakeSnapshot { after: 0 }).await.unwrap();
        let kept = SAMPLES as u64;
        assert_eq!(taken.dropped_samples, 100_000 - kept);
        let state = link.addr().gauge().state();
        assert_eq!((state.inbox.depth_max, state.inbox.drops), (kept, 100_000 - kept));
        // And with a reader that keeps up.
        for _ in 0..100_000 {
            link.record(upload);
            yield_now().await;
        }
        let taken = link.addr().ask(TakeSnapshot { after: 0 }).await.unwrap();
        assert_eq!((taken.dropped_samples, taken.next), (100_000 - kept, 100_000 + kept));
        assert_eq!(taken.samples.len(), TRACE_SAMPLES);
        assert_eq!(taken.lost_samples, taken.next - TRACE_SAMPLES as u64);
        assert_eq!(taken.totals.upload_bytes, 2 * taken.next);
    });
}
