//! A reply that ends in any stage of its run, by whatever ends it: ten times each, and the device holds what
//! it held before.

use futures::future::{Either, select};
use futures::pin_mut;

use fanlight_actors::kit::Latch;
use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::error::DeviceError;
use fanlight_messages::plan::Budget;
use fanlight_messages::protocol::engine::*;

use crate::device::{Fault, settle, yield_now};
use crate::rig::{Rig, collect, request, with_engine};
use crate::streaming::{PAGE_BYTES, bounds, load_within};

/// What ends a reply.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Cancel,
    Drop,
    Error,
}

/// What makes a reply come to a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Plain,
    /// The device is lost at its third submission.
    Lost,
    /// Another budget is asked for.
    Budget,
}

fn ids(len: u32) -> Vec<u32> {
    (0..len).map(|i| (i * 29 + 3) % 250).collect()
}

/// Lets the world run until the device has done this.
async fn until(rig: &Rig, stage: &str) {
    for _ in 0..4000 {
        if rig.device.state.borrow().called.contains(stage) {
            return;
        }
        yield_now().await;
    }
    panic!("the device never came to {stage}");
}

/// What the device holds beside its model.
fn held(rig: &Rig) -> (u32, usize, usize) {
    let state = rig.device.state.borrow();
    (state.slots_lent, state.in_flight, state.models)
}

/// Ends a reply when the device does this for the `turn`th time.
async fn end_in(rig: &Rig, stage: &str, way: Way, end: End, turn: u32, budgets: [u64; 2]) {
    let width = WidthPolicy::Fixed(Width::Nodes(if turn.is_multiple_of(2) { 8 } else { 2 }));
    {
        let mut state = rig.device.state.borrow_mut();
        state.pipelines.clear();
        state.called.clear();
    }
    if way == Way::Lost {
        let mut state = rig.device.state.borrow_mut();
        let at = state.submissions + 2;
        state.faults = [(at, Fault::Lose)].into();
    }
    let request = Generate { width, reuse_prefix: false, ..request(&ids(40 + turn), 60) };
    let generation = rig.handle.generate(request).await.unwrap();
    let act = async {
        let mut generation = generation;
        let mut read = Box::pin(until(rig, stage));
        // The reader reads all the while.
        loop {
            let event = generation.events.next();
            pin_mut!(event);
            match select(&mut read, event).await {
                Either::Left(_) => break,
                Either::Right((event, _)) => assert!(event.is_some(), "it ended before {stage}"),
            }
        }
        drop(read);
        match end {
            End::Cancel => rig.handle.cancel().await.unwrap(),
            End::Drop => return,
            End::Error => {
                let mut state = rig.device.state.borrow_mut();
                let refused = DeviceError::Refused { phase: "a call".into(), reason: "by the test".into() };
                let next = state.calls + 1;
                state.call_faults = [(next, refused)].into();
            }
        }
        let ended = collect(&mut generation).await;
        assert!(end != End::Cancel || ended.result.is_ok(), "{ended:?}");
    };
    let budget = async {
        if way == Way::Budget {
            let bytes = budgets[turn as usize % 2];
            let budget = Some(Budget { bytes, page_bytes: PAGE_BYTES });
            let set = SetBudget { budget, batch_tokens: 64 };
            // Whether it takes effect is another matter: what ends the reply may end it too.
            let _ = rig.handle.set_budget(set, Latch::new(LoadProgress::default())).await;
        }
    };
    futures::join!(act, budget);
    rig.handle.cancel().await.unwrap();
    let what = format!("{end:?} in {stage}, {way:?}, turn {turn}");
    let (slots, in_flight, models) = held(rig);
    assert!((slots, in_flight) == (0, 0) && models <= 1, "{what}: {:?}", held(rig));
    rig.device.state.borrow_mut().faults.clear();
    rig.device.state.borrow_mut().call_faults.clear();
    if rig.handle.generate(request_of(1)).await.is_err() {
        // Another budget that failed half way leaves no model.
        assert_eq!(way, Way::Budget, "{what}");
        load_within(rig, budgets[0]).await.unwrap();
    }
    rig.handle.cancel().await.unwrap();
    rig.check_reply(request_of(6)).await;
    settle().await;
    assert_eq!(held(rig), (0, 0, 1), "{what}");
}

fn request_of(tokens: u32) -> Generate {
    request(&ids(9), tokens)
}

fn every_end_in(stages: &[(&'static str, Way)], streams: bool) {
    for (seed, (stage, way)) in (0..).zip(stages.iter().copied()) {
        for end in [End::Cancel, End::Drop, End::Error] {
            with_engine(seed, async move |rig, _| {
                let (least, resident) = bounds().await;
                let bytes = if streams { least } else { resident };
                load_within(&rig, bytes).await.unwrap();
                let held_bytes = rig.device.state.borrow().held_bytes;
                for turn in 0..10 {
                    end_in(&rig, stage, way, end, turn, [least.midpoint(resident), least]).await;
                    if way != Way::Budget {
                        assert_eq!(rig.device.state.borrow().held_bytes, held_bytes, "{end:?} in {stage}");
                    }
                }
                rig.handle.unload().await.unwrap();
                let state = rig.device.state.borrow();
                assert_eq!((state.models, state.held_bytes, state.slots_lent), (0, 0, 0));
            });
        }
    }
}

#[test]
fn e21_a_streamed_reply_that_ends_anywhere_gives_back_what_it_held() {
    let plain = ["prepare", "begin", "upload", "gather", "draft", "pass", "submit"].map(|s| (s, Way::Plain));
    let lost = ["reopen", "create", "upload", "compile"].map(|stage| (stage, Way::Lost));
    every_end_in(&plain, true);
    every_end_in(&lost, true);
}

#[test]
fn e21_a_resident_reply_that_ends_anywhere_gives_back_what_it_held() {
    let plain = ["prepare", "sampling", "begin", "submit"].map(|stage| (stage, Way::Plain));
    let lost = ["reopen", "create", "upload", "vector", "compile"].map(|stage| (stage, Way::Lost));
    every_end_in(&plain, false);
    every_end_in(&lost, false);
}

#[test]
fn e21_a_reply_that_ends_while_its_budget_changes_gives_back_what_it_held() {
    let stages = ["create", "upload", "compile"].map(|stage| (stage, Way::Budget));
    every_end_in(&stages, true);
    every_end_in(&stages, false);
}

/// Report E21: three replies that ended by a stop text left no slot for the fourth.
#[test]
fn e21_a_stop_text_in_any_pass_gives_its_slot_back() {
    with_engine(3, async |rig, _| {
        let (least, _) = bounds().await;
        load_within(&rig, least).await.unwrap();
        for width in [Width::Off, Width::Nodes(4)] {
            let asked = Generate { width: WidthPolicy::Fixed(width), ..request(&ids(20), 30) };
            let whole = rig.check_reply(asked.clone()).await;
            let printable = |id: &&u32| (32..127).contains(*id);
            let stops: Vec<u32> = whole.ids.iter().filter(printable).copied().collect();
            for turn in 0..10 {
                let stop = vec![char::from(stops[turn % stops.len()] as u8).to_string()];
                let mut generation = rig.handle.generate(Generate { stop, ..asked.clone() }).await.unwrap();
                assert_eq!(collect(&mut generation).await.reason(), FinishReason::Stop);
                assert_eq!(held(&rig), (0, 0, 1));
            }
        }
    });
}
