//! A device that fails at any call of the engine, in whichever way: the reply goes on or ends in a typed
//! error, and the next request is served.

use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::error::{DeviceError, GenerateError, LoadError};
use fanlight_messages::protocol::engine::Generate;

use crate::rig::{Ended, Rig, request, with_engine};
use crate::streaming::{bounds, load_within};

fn ids() -> Vec<u32> {
    (0..90).map(|i| (i * 29 + 3) % 250).collect()
}

fn failures() -> [DeviceError; 3] {
    let (phase, reason) = (String::from("a call"), String::from("by the test"));
    [
        DeviceError::Refused { phase: phase.clone(), reason: reason.clone() },
        DeviceError::Lost { reason },
        DeviceError::OutOfMemory { phase },
    ]
}

/// A reply in which the `after`th call fails; false when the reply made fewer calls.
async fn fail_at(rig: &Rig, after: u64, failure: &DeviceError) -> bool {
    let (at, reopened) = {
        let mut state = rig.device.state.borrow_mut();
        state.pipelines.clear();
        let at = state.calls + after;
        state.call_faults = [(at, failure.clone())].into();
        (at, state.reopened)
    };
    let width = WidthPolicy::Fixed(Width::Nodes(4));
    let asked = Generate { width, reuse_prefix: false, ..request(&ids(), 20) };
    let wanted = rig.reference(&ids(), 20).0;
    let Ended { ids: said, result, .. } = rig.reply(asked).await;
    let is_met = rig.device.state.borrow().calls >= at;
    match (&result, failure) {
        (Ok(_), _) => assert_eq!(said, wanted),
        (Err(GenerateError::Device(error)), failure) => {
            assert!(!matches!(failure, DeviceError::Lost { .. }), "call {after}: a loss is resumed");
            assert_eq!(error, failure, "call {after}");
            assert!(wanted.starts_with(&said));
        }
        (Err(error), _) => panic!("call {after}: {error}"),
    }
    if is_met && matches!(failure, DeviceError::Lost { .. }) {
        assert_eq!(rig.device.state.borrow().reopened, reopened + 1);
    }
    rig.device.state.borrow_mut().call_faults.clear();
    rig.check_reply(request(&ids()[..20], 5)).await;
    let state = rig.device.state.borrow();
    assert_eq!((state.models, state.slots_lent, state.in_flight), (1, 0, 0), "call {after}");
    is_met
}

#[test]
fn e24_a_device_may_fail_at_any_call_of_a_reply() {
    for streams in [false, true] {
        for failure in failures() {
            with_engine(1, async move |rig, _| {
                let (least, resident) = bounds().await;
                load_within(&rig, if streams { least } else { resident }).await.unwrap();
                let mut after = 1;
                while fail_at(&rig, after, &failure).await {
                    after += 1;
                }
                assert!(after > 15, "{after} calls");
            });
        }
    }
}

#[test]
fn e24_a_load_may_fail_at_any_call_and_the_next_one_works() {
    for failure in failures() {
        with_engine(2, async move |rig, _| {
            for after in 1.. {
                let at = rig.device.state.borrow().calls + after;
                rig.device.state.borrow_mut().call_faults = [(at, failure.clone())].into();
                let loaded = rig.load().await;
                if rig.device.state.borrow().call_faults.is_empty() {
                    // Without memory a smaller plan is tried, as long as there is one.
                    let has_plan = loaded.is_ok() && matches!(failure, DeviceError::OutOfMemory { .. });
                    assert!(
                        has_plan || loaded == Err(LoadError::Device(failure.clone())),
                        "{after}: {loaded:?}"
                    );
                } else {
                    loaded.unwrap();
                    assert!(after > 10, "{after} calls");
                    return;
                }
                rig.load().await.unwrap();
                rig.check_reply(request(&ids(), 3)).await;
            }
        });
    }
}
