//! A device on which some pipelines do not agree with plain decoding: they are found, told of and never
//! used.

use fanlight_messages::device::{Purpose, Quarantined};
use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::protocol::engine::Generate;

use crate::device::Fault;
use crate::rig::{Rig, request, with_engine};

fn ids() -> Vec<u32> {
    // It repeats itself, so that drafts pay.
    (0..120).map(|i| i % 12).collect()
}

fn purposes(found: &[Quarantined]) -> Vec<Purpose> {
    found.iter().map(|found| found.purpose).collect()
}

async fn reply(rig: &Rig, width: WidthPolicy) -> Vec<Purpose> {
    let ended = rig.check_reply(Generate { width, ..request(&ids(), 60) }).await;
    purposes(&ended.result.expect("the reply finished").quarantined)
}

#[test]
fn a_fixed_width_that_is_wrong_is_told_of_once_and_replies_are_plain() {
    with_engine(1, |rig, _| async move {
        rig.device.state.borrow_mut().wrong = vec![Purpose::Tree(8)];
        let fixed = |nodes| WidthPolicy::Fixed(Width::Nodes(nodes));
        assert_eq!(reply(&rig, fixed(8)).await, [Purpose::Tree(8)]);
        assert_eq!(reply(&rig, fixed(8)).await, []);
        // What is wider is not tried, what is narrower still is.
        assert_eq!(reply(&rig, fixed(16)).await, []);
        assert!(rig.device.state.borrow().widths.iter().all(|width| *width == Width::Off));
        assert_eq!(reply(&rig, fixed(4)).await, []);
        assert_eq!(rig.device.state.borrow().widths.last(), Some(&Width::Nodes(4)));
        let facts = rig.handle.snapshot(0).await.unwrap().facts;
        assert_eq!(purposes(&facts.quarantined), [Purpose::Tree(8)], "telemetry knows of it");
    });
}

#[test]
fn what_is_chosen_stays_below_what_is_wrong() {
    with_engine(2, |rig, _| async move {
        {
            let mut state = rig.device.state.borrow_mut();
            state.wrong = vec![Purpose::Tree(8), Purpose::Tree(16)];
            state.is_gpu = true;
        }
        let auto = WidthPolicy::Auto { max: 32 };
        let mut found = Vec::new();
        for _ in 0..6 {
            found.extend(reply(&rig, auto).await);
        }
        // After the first finding nothing as wide is tried, and what is narrower is.
        assert_eq!(found, [Purpose::Tree(8)]);
        let widths = rig.device.state.borrow().widths.clone();
        assert!(widths.iter().any(|width| matches!(width, Width::Nodes(2 | 4))), "{widths:?}");
    });
}

#[test]
fn prompts_that_would_be_wrong_are_evaluated_token_by_token() {
    with_engine(3, |rig, _| async move {
        rig.device.state.borrow_mut().wrong = vec![Purpose::Prompts];
        let loaded = rig.load().await.unwrap();
        assert_eq!(loaded.quarantined.map(|found| found.purpose), Some(Purpose::Prompts));
        // The device refuses anything else.
        rig.check_reply(request(&ids(), 20)).await;
        // What the next device must not use is asked of it.
        let at = rig.device.state.borrow().submissions + 3;
        rig.device.state.borrow_mut().faults.insert(at, Fault::Lose);
        rig.check_reply(Generate { reuse_prefix: false, ..request(&ids(), 20) }).await;
        rig.device.state.borrow_mut().wrong.clear();
        let before = rig.device.state.borrow().submissions;
        assert_eq!(rig.load().await.unwrap().quarantined, None);
        rig.check_reply(request(&ids(), 1)).await;
        assert!(rig.device.state.borrow().submissions < before + 5, "in batches again");
    });
}
