//! A device that fails: typed errors, no wrong token, and the way back.

use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::error::{DeviceError, GenerateError};
use fanlight_messages::protocol::engine::{FinishReason, Generate, GenerationEvent};

use crate::device::{Fault, yield_now};
use crate::rig::{Rig, request, with_engine};

fn ids(seed: u32) -> Vec<u32> {
    (0..150).map(|i| (i * 5 + seed) % 256).collect()
}

/// Runs a reply with a fault at the submission `after` from now; returns its error.
async fn fail(rig: &Rig, fault: Fault, after: u64, seed: u32) -> GenerateError {
    let at = rig.device.state.borrow().submissions + after;
    rig.device.state.borrow_mut().faults.insert(at, fault);
    let ended = rig.reply(request(&ids(seed), 80)).await;
    assert!(rig.reference(&ids(seed), 80).0.starts_with(&ended.ids), "no wrong token before the failure");
    ended.result.expect_err("the fault ends the reply")
}

#[test]
fn e22_a_refused_submission_ends_the_reply_and_the_next_one_brings_the_model_back() {
    for after in 0..12 {
        with_engine(after, |rig, _| async move {
            let error = fail(&rig, Fault::Refuse, after, 1).await;
            assert!(matches!(error, GenerateError::Device(DeviceError::Refused { .. })));
            assert_eq!(rig.device.state.borrow().models, 0, "nothing is trusted any more");
            rig.check_reply(request(&ids(1), 80)).await;
            let state = rig.device.state.borrow();
            assert_eq!((state.models, state.reopened), (1, 1));
        });
    }
}

/// An error that nobody waited for, or a loss, while nothing runs: a load and a reply both find a device that
/// is open, and nobody is told of a failure.
#[test]
fn e23_a_device_that_broke_while_idle_is_opened_again() {
    for by_load in [true, false] {
        with_engine(1, |rig, _| async move {
            for again in 1..=3 {
                rig.device.state.borrow_mut().is_sick = true;
                if by_load {
                    rig.load().await.unwrap();
                }
                rig.check_reply(request(&ids(again), 20)).await;
                let state = rig.device.state.borrow();
                assert_eq!((state.reopened, state.models, state.is_sick), (again, 1, false));
            }
        });
    }
}

/// A model that cannot be brought back is gone, and the reply says so; another load works.
#[test]
fn e22_what_cannot_be_brought_back_is_said_to_be_gone() {
    with_engine(1, |rig, _| async move {
        {
            let mut state = rig.device.state.borrow_mut();
            state.is_sick = true;
            state.binding_bytes_max = 1 << 20;
        }
        let ended = rig.reply(request(&ids(1), 20)).await;
        assert!(matches!(ended.result, Err(GenerateError::Device(DeviceError::Lost { .. }))), "{ended:?}");
        assert_eq!(rig.handle.generate(request(&[1], 5)).await.err(), Some(GenerateError::NoModel));
        rig.device.state.borrow_mut().binding_bytes_max = 128 << 20;
        rig.load().await.unwrap();
        rig.check_reply(request(&ids(1), 20)).await;
    });
}

/// In the prompt, in every window, twice in a row; with drafts and without: the same ids, text and hash as if
/// nothing had happened.
#[test]
fn a_lost_device_is_opened_again_and_the_reply_goes_on() {
    for (seed, width) in (0..26).zip([Width::Off, Width::Nodes(8)].into_iter().cycle()) {
        with_engine(seed, |rig, _| async move {
            let request = Generate { width: WidthPolicy::Fixed(width), ..request(&ids(1), 80) };
            let whole = rig.check_reply(request.clone()).await;
            let at = rig.device.state.borrow().submissions + seed / 2;
            for again in [0, 1, 7] {
                rig.device.state.borrow_mut().faults.insert(at + again, Fault::Lose);
            }
            let resumed = rig.check_reply(Generate { reuse_prefix: false, ..request.clone() }).await;
            assert_eq!((&resumed.ids, &resumed.text), (&whole.ids, &whole.text));
            let (whole, resumed) = (whole.result.unwrap(), resumed.result.unwrap());
            assert_eq!((whole.logits_hash, whole.reason), (resumed.logits_hash, resumed.reason));
            // A device that went when the reply was complete is opened again for the next one.
            rig.check_reply(request).await;
            let state = rig.device.state.borrow();
            assert!((1..=3).contains(&state.reopened), "{}", state.reopened);
            assert_eq!((state.models, state.models_max), (1, 1));
        });
    }
}

/// What was evaluated again is journalled again: the conversation goes on from the cache, not from nothing.
#[test]
fn after_a_resumed_reply_its_beginning_is_reused() {
    for after in 0..20 {
        with_engine(after, |rig, _| async move {
            let at = rig.device.state.borrow().submissions + after;
            rig.device.state.borrow_mut().faults.insert(at, Fault::Lose);
            let reply = rig.check_reply(request(&ids(5), 30)).await.ids;
            if rig.device.state.borrow().reopened == 0 {
                // The device went when the reply was complete, or later.
                return;
            }
            let longer = [ids(5), reply.clone(), vec![7, 7]].concat();
            let mut generation = rig.handle.generate(request(&longer, 10)).await.unwrap();
            assert_eq!(generation.started.reused_tokens as usize, 150 + reply.len() - 1, "lost at {after}");
            let ended = crate::rig::collect(&mut generation).await;
            assert_eq!(ended.ids, rig.reference(&longer, 10).0);
        });
    }
}

#[test]
fn a_stop_text_and_a_limit_hold_across_a_lost_device() {
    with_engine(3, |rig, _| async move {
        let whole = rig.check_reply(request(&ids(4), 60)).await;
        let at = whole.ids.windows(2).position(|pair| pair.iter().all(|id| *id < 128));
        let Some(at) = at else { panic!("no text to stop at") };
        let stop = String::from_utf8(vec![whole.ids[at] as u8, whole.ids[at + 1] as u8]).unwrap();
        for after in 0..20 {
            let first = rig.device.state.borrow().submissions + after;
            // One that the reply before did not reach is not to be met by this one.
            rig.device.state.borrow_mut().faults = [(first, Fault::Lose)].into();
            let request = Generate { stop: vec![stop.clone()], ..request(&ids(4), 60) };
            let mut generation = rig.handle.generate(request).await.unwrap();
            let ended = crate::rig::collect(&mut generation).await;
            let cut = whole.text.find(&stop).unwrap();
            assert_eq!((ended.text.as_str(), ended.reason()), (&whole.text[..cut], FinishReason::Stop));
        }
    });
}

#[test]
fn a_device_that_stays_away_ends_the_reply_and_the_next_one_tries_again() {
    for after in 0..12 {
        with_engine(after, |rig, _| async move {
            rig.device.state.borrow_mut().is_gone = true;
            let error = fail(&rig, Fault::Lose, after, 1).await;
            let GenerateError::Device(DeviceError::Lost { reason }) = &error else { panic!("{error:?}") };
            assert!(reason.contains("did not come back"), "{reason}");
            let again = rig.reply(request(&[1], 5)).await.result;
            assert!(matches!(again, Err(GenerateError::Device(DeviceError::Lost { .. }))), "{again:?}");
            rig.device.state.borrow_mut().is_gone = false;
            rig.check_reply(request(&ids(1), 80)).await;
        });
    }
}

#[test]
fn a_device_that_is_lost_again_and_again_is_given_up() {
    with_engine(1, |rig, _| async move {
        let first = rig.device.state.borrow().submissions;
        for at in 0..100 {
            rig.device.state.borrow_mut().faults.insert(first + at, Fault::Lose);
        }
        let ended = rig.reply(request(&ids(1), 80)).await;
        assert!(matches!(ended.result, Err(GenerateError::Device(DeviceError::Lost { .. }))));
        assert_eq!(rig.device.state.borrow().reopened, 3);
        rig.device.state.borrow_mut().faults.clear();
        rig.check_reply(request(&ids(1), 80)).await;
    });
}

#[test]
fn another_adapter_is_told() {
    for (other, same) in [("", true), ("another", false)] {
        with_engine(2, |rig, _| async move {
            rig.device.state.borrow_mut().other_name = other.into();
            let at = rig.device.state.borrow().submissions + 5;
            rig.device.state.borrow_mut().faults.insert(at, Fault::Lose);
            let mut generation = rig.handle.generate(request(&ids(1), 40)).await.unwrap();
            let mut told = Vec::new();
            while let Some(event) = generation.events.next().await {
                if let GenerationEvent::Resumed { same_adapter, .. } = event {
                    told.push(same_adapter);
                }
            }
            assert_eq!(told, [same]);
        });
    }
}

/// A cancel while the model is brought back ends the reply; the next one is whole.
#[test]
fn a_cancel_is_heard_while_the_device_comes_back() {
    for seed in 0..30 {
        with_engine(seed, |rig, _| async move {
            let at = rig.device.state.borrow().submissions + 3;
            rig.device.state.borrow_mut().faults.insert(at, Fault::Lose);
            let mut generation = rig.handle.generate(request(&ids(1), 80)).await.unwrap();
            for _ in 0..seed * 4 {
                yield_now().await;
            }
            rig.handle.cancel().await.unwrap();
            let ended = crate::rig::collect(&mut generation).await;
            assert!(rig.reference(&ids(1), 80).0.starts_with(&ended.ids));
            assert_eq!(ended.reason(), FinishReason::Cancelled);
            rig.check_reply(request(&ids(1), 80)).await;
        });
    }
}

#[test]
fn a_poisoned_reply_ends_in_an_error_and_the_next_one_starts_cold() {
    // The batches of the prompt (150 tokens: 16, 32, 32, 64 and the rest) choose nothing before the fifth.
    for after in 4..12 {
        with_engine(after, |rig, _| async move {
            let error = fail(&rig, Fault::Poison, after, 2).await;
            assert!(matches!(error, GenerateError::Poisoned { .. }), "{error:?}");
            let mut generation = rig.handle.generate(request(&ids(2), 80)).await.unwrap();
            assert_eq!(generation.started.reused_tokens, 0, "the cache is not trusted");
            let ended = crate::rig::collect(&mut generation).await;
            assert_eq!(ended.ids, rig.reference(&ids(2), 80).0);
        });
    }
}
