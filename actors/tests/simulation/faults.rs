//! A device that fails: typed errors, no wrong token, and the way back.

use fanlight_messages::error::{DeviceError, GenerateError};

use crate::device::Fault;
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
fn a_lost_device_ends_the_reply_and_a_load_brings_it_back() {
    for fault in [Fault::Lose, Fault::Refuse] {
        for after in 0..12 {
            with_engine(after, |rig, _| async move {
                let error = fail(&rig, fault, after, 1).await;
                match fault {
                    Fault::Lose => {
                        assert!(matches!(error, GenerateError::Device(DeviceError::Lost { .. })));
                    }
                    _ => assert!(matches!(error, GenerateError::Device(DeviceError::Refused { .. }))),
                }
                assert_eq!(rig.device.state.borrow().models, 0, "nothing is trusted any more");
                let next = rig.handle.generate(request(&[1], 5)).await.err();
                assert_eq!(next, Some(GenerateError::NoModel));
                rig.load().await.unwrap();
                rig.check_reply(request(&ids(1), 80)).await;
            });
        }
    }
}

#[test]
fn a_poisoned_reply_ends_in_an_error_and_the_next_one_starts_cold() {
    // The batches of the prompt (150 tokens in batches of 64) choose nothing before the third.
    for after in 2..12 {
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
