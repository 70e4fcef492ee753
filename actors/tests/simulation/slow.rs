//! A device on which a step takes longer than a watchdog waits: what is submitted is split.

use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::limits::{COMPILE_SHARE, SUBMISSION_US_MAX};
use fanlight_messages::protocol::engine::Generate;

use crate::device::{COMPILE_US, settle};
use crate::rig::{Rig, load_request, request, with_engine};

fn ids() -> Vec<u32> {
    (0..100).map(|i| i % 12).collect()
}

/// The first prompt batch is split on suspicion, everything else by what was measured.
#[test]
fn no_submission_keeps_a_slow_device_beyond_the_cap() {
    for (seed, width) in (0..).zip([Width::Off, Width::Nodes(2), Width::Nodes(8)]) {
        with_engine(seed, |rig, _| async move {
            let (prompt_token_us, step_us) = (19_000, 900_000);
            {
                let mut state = rig.device.state.borrow_mut();
                (state.prompt_token_us, state.step_us) = (prompt_token_us, step_us);
                state.part_us.clear();
            }
            let width = WidthPolicy::Fixed(width);
            let asked = Generate { width, window_steps: Some(4), ..request(&ids(), 20) };
            rig.check_reply(asked.clone()).await;
            let parts = std::mem::take(&mut rig.device.state.borrow_mut().part_us);
            assert!(prompt_token_us * u64::from(load_request().batch_tokens) > SUBMISSION_US_MAX);
            // What was submitted before the first step was measured may take longer.
            let late = parts.iter().filter(|us| **us > SUBMISSION_US_MAX).count();
            assert!(late <= 2, "{parts:?}");
            assert!(parts[late.max(2) + 2..].iter().all(|us| *us <= SUBMISSION_US_MAX), "{parts:?}");
            // Afterwards it is known.
            rig.check_reply(Generate { reuse_prefix: false, ..asked }).await;
            let parts = std::mem::take(&mut rig.device.state.borrow_mut().part_us);
            assert!(parts.iter().all(|us| *us <= SUBMISSION_US_MAX), "{parts:?}");
        });
    }
}

#[test]
fn a_frame_budget_splits_steps_that_are_longer() {
    with_engine(4, |rig, _| async move {
        rig.device.state.borrow_mut().step_us = 20_000;
        let asked = Generate { frame_budget_ms: Some(8), ..request(&ids(), 12) };
        rig.check_reply(asked.clone()).await;
        rig.device.state.borrow_mut().part_us.clear();
        rig.check_reply(Generate { reuse_prefix: false, ..asked }).await;
        let parts = std::mem::take(&mut rig.device.state.borrow_mut().part_us);
        assert!(parts.iter().all(|us| *us <= 8_000), "{parts:?}");
        assert!(parts.iter().any(|us| *us > 4_000), "no more parts than are needed: {parts:?}");
    });
}

/// Whatever widths the controller would like to try: a first reply gives a tenth of its time for compiling
/// them.
#[test]
fn compiling_takes_a_share_of_the_first_reply_and_the_rest_comes_behind_it() {
    with_engine(5, |rig, _| async move {
        rig.device.state.borrow_mut().is_gpu = true;
        rig.load().await.unwrap();
        let compiled = |rig: &Rig| rig.device.state.borrow().pipelines.values().sum::<u32>();
        let asked = Generate { width: WidthPolicy::Auto { max: 32 }, ..request(&ids()[..40], 80) };
        let began_us = rig.device.now_us();
        rig.check_reply(asked.clone()).await;
        let elapsed_us = rig.device.now_us() - began_us;
        let within = u64::from(compiled(&rig));
        assert!(within > 0, "widths are tried");
        // The one that reached the share, and one more whose turn it was.
        assert!((within - 1) * COMPILE_US <= elapsed_us / COMPILE_SHARE, "{within} in {elapsed_us} us");
        settle().await;
        assert!(u64::from(compiled(&rig)) > within, "the rest is compiled while nobody asks for anything");
        rig.check_reply(asked).await;
    });
}
